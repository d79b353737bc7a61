/**
 * One node for all suites of this folder, as a start costs more than most of them. They need no settings of their own, keep to streams of
 * their own, and never restart it.
 */
import { after } from 'node:test'
import { BrokerServer } from '../../../support/broker.ts'

/** So that what is too large need not be large. */
export const MAX_BODY_BYTES = 100_000

export const broker = await BrokerServer.start({
  flags: ['--max-body-bytes', String(MAX_BODY_BYTES), '--metrics-exposure', 'http'],
})
after(() => broker.stop())
