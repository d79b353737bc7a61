import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openApiOf } from '../../../src/objectstore/s3/openapi.ts'
import { OPERATIONS } from '../../../src/objectstore/s3/operations-table.ts'

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly parameters: readonly { readonly name: string; readonly in: string }[]
}

const pathsOf = (...extensions: 'list-v1'[]): Record<string, Record<string, Operation>> => {
  const { paths } = openApiOf('1', [], new Set(extensions)) as { paths: Record<string, Record<string, Operation>> } // openApiDocument gives this form
  return paths
}

test('the OpenAPI document has every operation once, and extensions only where they are on', () => {
  const named = (...extensions: 'list-v1'[]): string[] =>
    Object.values(pathsOf(...extensions))
      .flatMap((methods) => Object.values(methods))
      .flatMap(({ summary }) => summary.split(', '))
  const expected = OPERATIONS.flatMap(({ name, target }) => (target === 'bucket or object' ? [name, name] : [name]))
  assert.deepEqual(named('list-v1').sort(), expected.toSorted())
  assert.deepEqual(named().sort(), expected.filter((name) => name !== 'ListObjects').sort())
})

test('operations of one path and method are one, which says how they are told apart', () => {
  const put = pathsOf()['/{bucket}/{key}']!['put']!
  assert.equal(put.operationId, 'putObject')
  assert.match(put.description!, /^PutObject: without the parameters and headers of the other operations\. /)
  assert.match(put.description!, /UploadPartCopy: with \?partNumber&uploadId and the header x-obj-copy-source\./)
  assert.deepEqual(
    put.parameters.map(({ name }) => name),
    ['bucket', 'key', 'partNumber', 'uploadId', 'tagging', 'versionId', 'x-obj-copy-source'],
  )
  assert.equal(pathsOf()['/{bucket}']!['get']!.operationId, 'listObjectsV2')
  assert.equal(pathsOf('list-v1')['/{bucket}']!['get']!.operationId, 'listObjects')
})
