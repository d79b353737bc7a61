/** Reads and checks what the head of a request says. */
import type { Answer } from '../../engine/decision.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import { ANSWER_BYTES_BUFFERED_MAX } from '../../http/limits.ts'
import { PATH_TOKEN_BYTES_MAX } from '../limits.ts'
import { STREAM_NAME_RULE, TOKEN_RULE } from '../names.ts'
import type { AbandonedSignal, DeliveryPath, GroupPath, RenderedJson } from '../operations.ts'
import { streamNamed, tokenNamed } from '../path-names.ts'
import { refuse } from '../refusals.ts'
import type { BrokerHttpParts } from './parts.ts'

// Paths. Every route with parameters begins with the stream.

const nameSchema = (description: string) => ({
  type: 'string',
  minLength: 1,
  maxLength: PATH_TOKEN_BYTES_MAX,
  description,
})
const token = nameSchema(TOKEN_RULE)
/** By the names that the routes give them. */
export const PATH_PARAMETERS = {
  stream: nameSchema(STREAM_NAME_RULE),
  group: token,
  cursor: token,
  subscription: token,
  delivery: token,
  incident: token,
}

export const noPath = (): null => null

export const streamOf = (head: RequestHead): string => streamNamed(head.param(0))

export const groupOf = (head: RequestHead): GroupPath => ({
  stream: streamOf(head),
  group: tokenOf(head, 1, 'consumer group'),
})

export const cursorOf = (head: RequestHead): { readonly group: GroupPath; readonly cursor: string } => ({
  group: groupOf(head),
  cursor: tokenOf(head, 2, 'cursor'),
})

export const subscriptionOf = (head: RequestHead): Pick<DeliveryPath, 'stream' | 'subscriptionId'> => ({
  stream: streamOf(head),
  subscriptionId: tokenOf(head, 1, 'subscription'),
})

export const deliveryOf = (head: RequestHead): DeliveryPath => ({
  stream: streamOf(head),
  subscriptionId: tokenOf(head, 1, 'subscription'),
  deliveryId: tokenOf(head, 2, 'delivery'),
})

export const incidentOf = (head: RequestHead): { readonly stream: string; readonly incidentId: string } => ({
  stream: streamOf(head),
  incidentId: tokenOf(head, 1, 'incident'),
})

const tokenOf = (head: RequestHead, index: number, what: string): string => tokenNamed(head.param(index), what)

/** Tells when the client closes its connection before it is answered. */
export const abandonedSignalOf = (exchange: Exchange): AbandonedSignal => ({
  onAbandoned: (listener) => exchange.onEnd((how) => how === 'aborted' && listener()),
})

/** The same answer. The bytes of a long one count as unread until the client has read them. */
export const countedAsUnread = (
  { unread }: Pick<BrokerHttpParts, 'unread'>,
  exchange: Exchange,
  answer: Answer<RenderedJson>,
): Answer<RenderedJson> => ({
  answered(body) {
    if (body.byteLength > ANSWER_BYTES_BUFFERED_MAX) exchange.onEnd(unread.hold(body.byteLength))
    answer.answered(body)
  },
  refused: (error) => answer.refused(error),
})

// Bodies

const CHARSET = /;\s*charset\s*=\s*"?([^\s";]*)/i

/** A body is JSON in UTF-8. Its media type is ignored, as curl calls every body a form. */
export function requireUtf8(head: RequestHead): void {
  const type = head.header('content-type')
  const charset = type.includes(';') ? CHARSET.exec(type)?.[1] : undefined
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw refuse('invalid_request', 'the charset of the body must be utf-8')
  }
}
