/** docs/notes/log-store-rows.md: the tests that it names exist, and it has everything of the specification that the code has. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { logStoreSettings } from '../../src/config/logstore.ts'
import { REFUSALS } from '../../src/logstore/refusals.ts'
import { codeOf, document, handbook, tableOf } from './markdown.ts'
import { testNamedTestsExist } from './rows.ts'

const NOTE = document('docs/notes/log-store-rows.md')
/** Routes and refusals that the specification does not have. */
const OWN_ROUTES =
  /^GET \/(livez|readyz|metrics|openapi\.json|v1\/(tail|datasets|traces\/)|jaeger\/)|^POST \/v1\/(export|query\/)/
const OWN_REFUSALS: ReadonlySet<string> = new Set([
  'request_timeout',
  'trace_not_found',
  'tail_unavailable',
  'not_leading',
  'not_found',
  'method_not_allowed',
  'internal_error',
])
/** Settings that the specification does not have. */
const OWN_SETTINGS =
  /_TLS_|_TENANT_POLICY_|_REPLICA_PATHS$|_WRITE_QUORUM$|_SEGMENT_BYTES$|_MAX_BODY_|_GATEWAY_|_CONCURRENT_|_RETENTION_|_COMPACTION$|_MERGING$|_DECODE_LANES$|_S3_(ENDPOINT|FORCE|REFRESH|CACHE)/

describe('the sentences of the log store’s specification', () => {
  testNamedTestsExist(NOTE)

  it('"Endpoints" are all routes but those of our own', () => {
    const named = tableOf(NOTE, 'Endpoints').flatMap(([row]) => (row!.startsWith('gRPC') ? [] : [codeOf(row)]))
    const routes = tableOf(handbook(), 'Routes of the log store').flatMap(([row]) =>
      row!.startsWith('gRPC') ? [] : Array.from(row!.matchAll(/`([^`]+)`/g), ([, route]) => route!),
    )
    const spelled = routes.map((route, i) => {
      const before = routes.slice(0, i).findLast((each) => !each.startsWith('…')) ?? ''
      return route.startsWith('…') ? `${before}${route.slice(1)}` : route
    })
    assert.deepEqual(spelled.filter((route) => !OWN_ROUTES.test(route)).toSorted(), named.toSorted())
  })

  it('"Errors" are all refusals but those of our own', () => {
    const known = Object.keys(REFUSALS).filter((kind) => !OWN_REFUSALS.has(kind))
    assert.deepEqual(
      tableOf(NOTE, 'Errors')
        .map(([row]) => codeOf(row))
        .toSorted(),
      known.toSorted(),
    )
  })

  it('"Runtime configuration" are all settings but those of our own', () => {
    const known = Object.keys(logStoreSettings).filter((name) => !OWN_SETTINGS.test(name))
    const named = tableOf(NOTE, 'Runtime configuration').map(([row]) => row!)
    assert.deepEqual(
      named.flatMap((row) => (row.startsWith('`LOGSTORE_') ? [codeOf(row)] : [])).toSorted(),
      known.toSorted(),
    )
  })
})
