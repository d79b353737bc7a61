/**
 * One node for all suites of this folder, as starting one takes longer than most of them. Suites need no settings of their own, use only
 * their own streams, and never restart the node.
 */
import { after } from 'node:test'
import { BrokerServer } from '../../../support/broker.ts'

/** Small, so that bodies over the limit need not be large. */
export const MAX_BODY_BYTES = 100_000

export const broker = await BrokerServer.start({
  flags: ['--max-body-bytes', String(MAX_BODY_BYTES), '--metrics-exposure', 'http'],
})
after(() => broker.stop())
