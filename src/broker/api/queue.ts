/** Routes of the shared queue: claims, and what becomes of their deliveries. */
import type { Endpoint } from '../../http/routes.ts'
import type { RefusalCode } from '../refusals.ts'
import {
  AckReply,
  BatchAckReply,
  ClaimReply,
  DeadLetterReply,
  NackReply,
  RenewReply,
  RetryReply,
} from '../wire/queue-answers.ts'
import { AckBody, BatchAckBody, ClaimBody, DeadLetterBody, NackBody, RenewBody, RetryBody } from '../wire/requests.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { RouteParts } from './parts.ts'
import { abandonedSignalOf, countedAsUnread, deliveryOf, groupOf, subscriptionOf } from './request.ts'

const DELIVERY_ERRORS: readonly RefusalCode[] = [
  'invalid_request',
  'missing_stream',
  'delivery_not_found',
  'lease_expired',
  'lease_not_active',
  'queue_state_persistence_failed',
]

export const claim = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Lease records; extension: with wait_millis the answer waits for a record',
    path: groupOf,
    body: ClaimBody,
    bodyOptional: true,
    reply: ClaimReply,
    errors: [
      'invalid_request',
      'missing_stream',
      'write_not_allowed',
      'quota_exceeded',
      'queue_state_persistence_failed',
    ],
    handle: ({ admitted: { caller, path }, body, exchange }, answer) =>
      parts.operations.claim(countedAsUnread(parts, exchange, answer), caller, path, body, abandonedSignalOf(exchange)),
  })

export const ack = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Acknowledge a delivery: its record is finished for the group',
    path: deliveryOf,
    body: AckBody,
    bodyOptional: true,
    reply: AckReply,
    errors: DELIVERY_ERRORS,
    handle: ({ admitted: { caller, path } }, answer) => parts.operations.ack(answer, caller, path),
  })

export const batchAck = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: acknowledge many deliveries of a subscription with one commit, each with its own result',
    path: subscriptionOf,
    body: BatchAckBody,
    reply: BatchAckReply,
    errors: ['invalid_request', 'missing_stream', 'queue_state_persistence_failed'],
    handle: ({ admitted: { caller, path }, body }, answer) =>
      parts.operations.batchAck(answer, caller, path.stream, path.subscriptionId, body),
  })

export const nack = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Give a delivery back as failed; the failure policy of the stream says what becomes of it',
    path: deliveryOf,
    body: NackBody,
    reply: NackReply,
    errors: DELIVERY_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) => parts.operations.nack(answer, caller, path, body),
  })

export const renew = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extend the lease of a delivery',
    path: deliveryOf,
    body: RenewBody,
    reply: RenewReply,
    errors: DELIVERY_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) => parts.operations.renew(answer, caller, path, body),
  })

export const retry = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Give a delivery back, to be given out again now or later',
    path: deliveryOf,
    body: RetryBody,
    reply: RetryReply,
    errors: DELIVERY_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) => parts.operations.retry(answer, caller, path, body),
  })

export const deadLetter = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Copy the record of a delivery to another stream and finish it here',
    path: deliveryOf,
    body: DeadLetterBody,
    reply: DeadLetterReply,
    errors: [...DELIVERY_ERRORS, 'write_not_allowed'],
    handle({ admitted: { caller, path }, body }, answer) {
      parts.demand(caller, 'stream.publish', body.dead_letter_stream)
      parts.operations.deadLetter(answer, caller, path, body)
    },
  })
