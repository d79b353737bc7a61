import assert from 'node:assert/strict'
import { test } from 'node:test'
import { brokerService } from '../../src/broker/api/routes.ts'
import { openAccess } from '../../src/broker/api/access.ts'
import type { BrokerHttpParts } from '../../src/broker/api/parts.ts'
import type { BrokerOperations } from '../../src/broker/operations.ts'
import { codeOf, handbook, tableOf } from './markdown.ts'
import { noConnections } from '../support/connections.ts'
import { OPEN, WELL } from '../support/health.ts'
import { standingRoutes } from '../../src/http/standing-endpoints.ts'

/** Parts for routes that get no request. */
const parts: BrokerHttpParts = {
  operations: {} as BrokerOperations, // only requests call them
  connections: noConnections(),
  node: { nodeId: '', version: '', httpBind: () => '', authMode: '', metricsExposure: 'disabled' },
  storage: () => ({ status: 'ok' }),
  health: WELL,
  standing: standingRoutes(OPEN),
  metrics: null,
  counters: { refused() {} },
  maxBodyBytes: 1,
  clock: () => ({ offset_ms: 0 }),
  turn: () => Promise.resolve(),
  access: openAccess({ tenant: '', principal: '' }),
  onRefused() {},
  onUnidentified() {},
  unread: { hold: () => () => {} },
  guard: null,
  logger: { error() {} },
}

test("the table of the broker's routes is that of the code, in its order", () => {
  assert.deepEqual(
    tableOf(handbook(), 'Routes of the broker').map(([route]) => codeOf(route)),
    brokerService(parts).routes.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`),
  )
})
