/**
 * The JSON requests of a client, in one table: the permission of the route, the fields of the message, and the operation.
 *
 *   {"id": 1, "op": "publish", "stream": "orders", "body": {…}}
 *
 * `body` is the body of the route, the other fields are the parameters of its path.
 */
import type { Answer } from '../../engine/decision.ts'
import { isObject } from '../../plain-objects.ts'
import { unknownField } from '../../validation.ts'
import { bodyCheck } from '../body-check.ts'
import type { Permission } from '../grants.ts'
import type { BrokerOperations, Caller, DeliveryPath } from '../operations.ts'
import { streamNamed, tokenNamed } from '../path-names.ts'
import { parsePublish } from '../publish-input.ts'
import { refuse } from '../refusals.ts'
import { BatchAckBody, DeadLetterBody, NackBody, RenewBody, RetryBody } from '../wire/requests.ts'

export type AskedOperations = Pick<
  BrokerOperations,
  'publish' | 'ack' | 'batchAck' | 'nack' | 'renew' | 'retry' | 'deadLetter'
>

/** Highest id of an operation. */
export const ID_MAX = 2 ** 32 - 1

export type Message = Readonly<Record<string, unknown>>

/** The connection, as an operation sees it. */
export interface Asking {
  readonly operations: AskedOperations
  readonly caller: Caller
  /** @throws BrokerError authorization_denied */
  readonly demand: (permission: Permission, stream: string) => void
  /** Called when deliveries of this subscription are settled. */
  readonly settled: (subscriptionId: string, deliveries: number) => void
}

interface Row {
  readonly permission: Permission
  /** Besides `id`, `op` and `stream`. */
  readonly fields: readonly string[]
  /** @throws BrokerError */
  readonly ask: (message: Message, asking: Asking, answer: Answer<object>) => void
}

const DELIVERY = ['subscription_id', 'delivery_id']

const deliveryOf = ({ stream, subscription_id, delivery_id }: Message): DeliveryPath => ({
  stream: streamNamed(stream),
  subscriptionId: tokenNamed(subscription_id, 'subscription'),
  deliveryId: tokenNamed(delivery_id, 'delivery'),
})

const checkBatchAck = bodyCheck(BatchAckBody)
const checkNack = bodyCheck(NackBody)
const checkRenew = bodyCheck(RenewBody)
const checkRetry = bodyCheck(RetryBody)
const checkDeadLetter = bodyCheck(DeadLetterBody)

/** An operation that ends the lease of one delivery. */
const settling = <Body>(
  check: (body: unknown) => Body,
  operation: (asking: Asking, answer: Answer<object>, path: DeliveryPath, body: Body) => void,
): Row => ({
  permission: 'stream.consume',
  fields: [...DELIVERY, 'body'],
  ask(message, asking, answer) {
    const path = deliveryOf(message)
    operation(
      asking,
      after(answer, () => asking.settled(path.subscriptionId, 1)),
      path,
      check(message['body']),
    )
  },
})

/** @param act called before the answer is given */
const after = <Reply extends object>(answer: Answer<object>, act: (reply: Reply) => void): Answer<Reply> => ({
  answered(reply) {
    act(reply)
    answer.answered(reply)
  },
  refused: (error) => answer.refused(error),
})

export const REQUESTS: Readonly<Record<string, Row>> = {
  publish: {
    permission: 'stream.publish',
    fields: ['body'],
    ask: ({ stream, body }, { operations, caller }, answer) =>
      operations.publish(answer, caller, streamNamed(stream), parsePublish(body)),
  },
  ack: {
    permission: 'stream.consume',
    fields: DELIVERY,
    ask(message, asking, answer) {
      const path = deliveryOf(message)
      const settled = after(answer, () => asking.settled(path.subscriptionId, 1))
      asking.operations.ack(settled, asking.caller, path)
    },
  },
  batch_ack: {
    permission: 'stream.consume',
    fields: ['subscription_id', 'body'],
    ask({ stream, subscription_id, body }, { operations, caller, settled }, answer) {
      const id = tokenNamed(subscription_id, 'subscription')
      const told = after(answer, (reply: { acknowledged_count: number }) => settled(id, reply.acknowledged_count))
      operations.batchAck(told, caller, streamNamed(stream), id, checkBatchAck(body))
    },
  },
  nack: settling(checkNack, ({ operations, caller }, answer, path, body) =>
    operations.nack(answer, caller, path, body),
  ),
  retry: settling(checkRetry, ({ operations, caller }, answer, path, body) =>
    operations.retry(answer, caller, path, body),
  ),
  dead_letter: settling(checkDeadLetter, ({ operations, caller, demand }, answer, path, body) => {
    demand('stream.publish', body.dead_letter_stream)
    operations.deadLetter(answer, caller, path, body)
  }),
  renew: {
    permission: 'stream.consume',
    fields: [...DELIVERY, 'body'],
    ask: (message, { operations, caller }, answer) =>
      operations.renew(answer, caller, deliveryOf(message), checkRenew(message['body'])),
  },
}

const COMMON = ['id', 'op', 'stream']

/** @throws BrokerError invalid_request */
export function checkFields(message: Message, fields: readonly string[]): void {
  for (const field in message) {
    if (COMMON.includes(field) || fields.includes(field)) continue
    throw refuse('invalid_request', unknownField('the message', [...COMMON, ...fields]))
  }
}

/** @throws BrokerError invalid_request */
export function integerIn(message: Message, field: string, min: number, max: number, absent: number | null): number {
  const value = message[field] ?? absent
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw refuse('invalid_request', `${field} must be an integer from ${min} to ${max}`)
}

export function messageOf(value: unknown): Message {
  if (isObject(value)) return value
  throw refuse('invalid_request', 'a message must be an object, or a list of objects')
}
