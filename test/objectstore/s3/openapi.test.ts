import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openApiOf } from '../../../src/objectstore/s3/openapi.ts'
import { OPERATIONS } from '../../../src/objectstore/s3/operations-table.ts'

type Document = { paths: Record<string, Record<string, { summary: string }>> }

test('the OpenAPI document has every operation once, told apart by what follows the path, and extensions only where they are on', () => {
  const summaries = (...extensions: 'list-v1'[]): string[] => {
    const { paths } = openApiOf('1', [], new Set(extensions)) as Document // openApiDocument makes it so
    return Object.values(paths).flatMap((methods) => Object.values(methods).map(({ summary }) => summary))
  }
  const expected = OPERATIONS.flatMap(({ name, target }) => (target === 'bucket or object' ? [name, name] : [name]))
  assert.deepEqual(summaries('list-v1').sort(), [...expected].sort())
  assert.deepEqual(summaries().sort(), expected.filter((name) => name !== 'ListObjects').sort())
  const { paths } = openApiOf('1', [], new Set()) as Document
  assert.equal(paths['/{bucket}?cors']!['put']!.summary, 'PutBucketCors')
  assert.equal(paths['/{bucket}/{key}#x-obj-copy-source']!['put']!.summary, 'CopyObject')
})
