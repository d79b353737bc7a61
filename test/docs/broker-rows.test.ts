/** docs/notes/broker-rows.md: the tests that it names exist, and it has everything of the specification that the code has. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { brokerRoutes } from '../../src/broker/api/routes.ts'
import type { BrokerHttpParts } from '../../src/broker/api/parts.ts'
import { REFUSALS } from '../../src/broker/refusals.ts'
import { codeOf, document, tableOf } from './markdown.ts'
import { testNamedTestsExist } from './rows.ts'

const NOTE = document('docs/notes/broker-rows.md')
/** Routes and refusals that the specification does not have: docs/broker.md marks them with †. */
const OWN_ROUTES =
  /batch|\/livez$|\/readyz$|\/purge$|\/redrive$|\/seek$|^DELETE |^PATCH |^GET \/v1\/streams\/\{\}\/consumer-groups$/
const OWN_REFUSALS: ReadonlySet<string> = new Set([
  'method_not_allowed',
  'payload_too_large',
  'request_timeout',
  'replica_apply_failed',
  'node_recovering',
  'not_leading',
  'replica_apply_gap',
  'replica_apply_invalid',
])

const enough = { maxBodyBytes: 1, metrics: null } as BrokerHttpParts // for the route table alone: no endpoint is called

/** A route without the names of its parameters. */
const plain = (route: string): string => route.replaceAll(/\{\w+\}|:\w+/g, '{}')

describe('the rows of the broker’s specification', () => {
  testNamedTestsExist(NOTE)

  it('"Endpoints" are all routes but those of our own', () => {
    const named = tableOf(NOTE, 'Endpoints').map(([row]) => row!)
    const routes = brokerRoutes(enough).map(([method, path]) => plain(`${method} ${path}`))
    const missing = routes.filter((route) => {
      if (OWN_ROUTES.test(route)) return false
      return !named.some((row) => {
        const [method, tail] = plain(codeOf(row)).split(' …')
        return tail === undefined ? route === method : route.startsWith(`${method} `) && route.endsWith(tail)
      })
    })
    assert.deepEqual(missing, ['GET /streams/{}/records'], 'the legacy fetch has a row in words')
  })

  it('"Errors" are all refusals but those of our own', () => {
    const named = tableOf(NOTE, 'Errors').map(([row]) => codeOf(row))
    const known = Object.keys(REFUSALS).filter((code) => !OWN_REFUSALS.has(code))
    assert.deepEqual(named.toSorted(), known.toSorted())
  })
})
