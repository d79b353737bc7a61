import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WebGuard } from '../../src/http/web-guard.ts'
import { OPERATIONS } from '../../src/objectstore/s3/operations-table.ts'
import type { Operation, OperationTarget } from '../../src/objectstore/s3/operations-table.ts'
import { managementRoutes, objectStoreStandingRoutes } from '../../src/objectstore/s3/management.ts'
import { codeOf, handbook, tableOf } from './markdown.ts'
import { OPEN } from '../support/health.ts'

const pages = handbook()

const PATHS: Readonly<Record<OperationTarget, readonly string[]>> = {
  service: ['/'],
  bucket: ['/{bucket}'],
  object: ['/{bucket}/{key}'],
  'bucket or object': ['/{bucket}', '/{bucket}/{key}'],
}
/** Values of the parameters whose value the client chooses. */
const VALUES: Readonly<Record<string, string>> = { partNumber: 'N', uploadId: 'ID' }

function requestOf({ method, target, selectors, header, extension }: Operation): string {
  const parameters = selectors.map(({ name, value }) => {
    const shown = value ?? VALUES[name]
    return shown === undefined ? name : `${name}=${shown}`
  })
  const query = parameters.length === 0 ? '' : `?${parameters.join('&')}`
  const requests = PATHS[target].map((path) => `\`${method} ${path}${query}\``)
  const withHeader = header === null ? '' : ` with \`x-obj-${header}\``
  return requests.join(', ') + withHeader + (extension === null ? '' : `, with the extension \`${extension}\``)
}

const shown = (text: string | null): string => (text === null ? '' : `\`${text}\``)

test("the table of the object store's operations is that of the code: requests, permissions, actions", () => {
  const byName = (rows: readonly (readonly (string | undefined)[])[]) => new Map(rows.map((row) => [row[1], row]))
  const rows = tableOf(pages, 'Operations of the object store')
  assert.equal(rows.length, OPERATIONS.length)
  assert.deepEqual(
    byName(rows),
    byName(
      OPERATIONS.map((operation) => [
        requestOf(operation),
        shown(operation.name),
        shown(operation.permission),
        shown(operation.action),
      ]),
    ),
  )
})

test("the table of the object store's other routes is that of the code", () => {
  const routes = managementRoutes({
    capabilities: () => assert.fail('no request is made'),
    helper: { store: async () => {}, newest: () => null, newestFirst: () => [] },
    standing: objectStoreStandingRoutes(OPEN),
    guard: new WebGuard({ bindHost: 'localhost', allowedHosts: [] }),
    logger: { error() {} },
  })
  assert.deepEqual(
    tableOf(pages, 'Other routes of the object store').map(([route]) => codeOf(route)),
    [
      ...routes.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`),
      'GET /v1/metrics',
      'GET /v1/openapi.json',
    ],
  )
})
