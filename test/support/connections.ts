/** Streaming connections that do nothing, for tests of everything else. */
import { Connections } from '../../src/broker/connection/connections.ts'
import type { ConnectionLimits } from '../../src/config/broker-connection.ts'
import { loadBrokerConfig } from '../../src/config/broker.ts'
import type { ConnectionOperations } from '../../src/broker/connection/session.ts'

export const CONNECTION_LIMITS: ConnectionLimits = loadBrokerConfig({}).connection

export const noConnections = (): Connections =>
  new Connections({
    operations: {} as ConnectionOperations, // only called by messages
    onDenied() {},
    onFailure() {},
    counters: { refused() {} },
    bodyBytesMax: 1,
    limits: CONNECTION_LIMITS,
    defer: setImmediate,
    turn: () => Promise.resolve(),
  })
