/** A delivery for each test, and what holds for all verbs. */
import assert from 'node:assert/strict'
import type { CreateStreamBody } from '../../../../src/broker/wire/requests.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { Delivery } from '../../../support/broker.ts'
import { broker } from './shared-node.ts'

export const SYNCED = { durability: 'local-sync', durable: true, replicas: 1 }
export const CONTROL = '\u0007'

export const HOUR_MS = 3_600_000

/** A delivery from a new stream. */
export async function delivery(failure_policy: CreateStreamBody['failure_policy'] = null): Promise<Delivery> {
  const stream = await broker.newStream({ failure_policy })
  await stream.publish('job')
  return stream.group().claimOne()
}
export const identityOf = ({ group, id, subscription }: Delivery) => ({
  api_version: 'v1',
  stream: group.stream.name,
  consumer_group: group.name,
  subscription_id: subscription,
  delivery_id: id,
})
export const isNow = (time: number): boolean => Math.abs(time - Date.now()) < 60_000

/** Every verb, with a good body. */
export const VERBS: readonly (readonly [verb: string, body: object | null])[] = [
  ['ack', null],
  ['nack', { reason: 'r', requeue: true }],
  ['nack', { reason: 'r', requeue: false }],
  ['renew', { extend_by_millis: 1 }],
  ['retry', { reason: 'r', delay_millis: 0 }],
  ['dead-letter', { dead_letter_stream: 'stream-0', reason: 'r' }],
]

export async function assertEveryVerbRefused(
  delivery: Delivery,
  status: number,
  code: Parameters<typeof assertRefused>[2],
): Promise<void> {
  for (const [verb, body] of VERBS) assertRefused(await delivery.post(verb, body), status, code)
}

/** Asserts that these bodies, and some that no verb takes, are refused and leave the delivery active. */
export async function assertBodiesRefused(delivery: Delivery, verb: string, bodies: readonly unknown[]): Promise<void> {
  for (const body of [...bodies, '{', 'null', '[]', { unknown: 1 }]) {
    assertRefused(await delivery.post(verb, body as object), 400, 'invalid_request')
  }
  assertRefused(await delivery.post(`${verb}?x=1`, {}), 400, 'invalid_request')
  assert.equal((await delivery.renew(1)).status, 200)
}
