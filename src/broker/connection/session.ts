/**
 * One streaming connection, without its socket: messages in, messages out. It calls the operations that the routes call.
 *
 * C1  every operation gets one answer with its id, when what the answer says is as durable as over HTTP. If the connection ends first, the
 *     operation still happens as a whole or not at all
 * C2  the grants at the start of an operation decide: keys that were read again count from the next operation on
 * C3  memory is bounded: operations in flight by a limit, deliveries by the credit (pushes.ts). Unread answers are checked before each
 *     operation, and too many of them end the connection
 * C4  messages are handled in the order they come (inbox.ts), the long ones that take several turns included
 * C5  after `stop` the connection takes no new operations, and ends when those under way are answered
 */
import type { ConnectionLimits } from '../../config/broker-connection.ts'
import type { Answer } from '../../engine/decision.ts'
import { JsonBoundError } from '../../../native-free-codecs/json-reader.ts'
import { SHORT_BODY_BYTES, readJsonBody } from '../../http/json-body.ts'
import type { MessageSocket, SocketListener } from '../../http/web-socket.ts'
import { denied } from '../denied.ts'
import type { Grants, Permission } from '../grants.ts'
import { CLAIM_MESSAGES_MAX, DURATION_MS_MAX, LEASE_TIMEOUT_MS_DEFAULT, OFFSET_MAX } from '../limits.ts'
import { isStreamName } from '../names.ts'
import type { Caller, Pushed, PushedClaim, StreamingOperations } from '../operations.ts'
import { streamNamed, tokenNamed } from '../path-names.ts'
import { longStringEncodingOf } from '../publish-input.ts'
import { isFailure, refusalOf, refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import { ANSWER, ENDED, REFUSED } from '../wire/connection-frames.ts'
import { BinaryMessages } from './binary-messages.ts'
import { HeldClaims } from './held-claims.ts'
import { Inbox } from './inbox.ts'
import { ANSWERS_UNREAD_BYTES_MAX, HELD_BACK_BYTES, SUBSCRIPTIONS_MAX } from './limits.ts'
import { Outbox } from './outbox.ts'
import { Pushes } from './pushes.ts'
import type { NewSubscription } from './pushes.ts'
import { ID_MAX, REQUESTS, checkFields, integerIn, messageOf } from './requests.ts'
import type { AskedOperations, Asking, Message } from './requests.ts'
import { TextItems } from './text-items.ts'
import type { TextItemsParts } from './text-items.ts'

export interface SessionCaller extends Caller {
  readonly grants: Grants
}

export type ConnectionOperations = AskedOperations & StreamingOperations

export interface SessionParts {
  readonly operations: ConnectionOperations
  readonly who: SessionCaller
  /** Called when an operation is refused because the caller lacks a permission. */
  readonly onDenied: (who: SessionCaller, refused: BrokerError, stream: string) => void
  readonly onFailure: (error: unknown) => void
  readonly counters: { refused(code: BrokerError['code']): void }
  /** True when leases end with the connection; otherwise they expire. */
  readonly releasesLeasesOnClose: boolean
  /** Ends leases whose client is gone. */
  readonly releaseClaims: (claims: readonly PushedClaim[]) => void
  /** The longest body that a route takes. */
  readonly bodyBytesMax: number
  readonly limits: ConnectionLimits
  /** Calls `run` once, after this turn of the event loop. */
  readonly defer: (run: () => void) => void
  /** Resolves in a later turn of the event loop, after all turns that were asked for before. */
  readonly turn: () => Promise<void>
  readonly onClosed: () => void
}

/** Close codes of WebSocket; `revoked` is our own, as the standard has none. */
export const CLOSE = { goingAway: 1001, protocol: 1002, policy: 1008, revoked: 4401 } as const
export type Form = 'json' | 'binary'

const STOPPING = 'the node is stopping: nothing was done'
const SUBSCRIBE_FIELDS = [
  'consumer_group',
  'credit',
  'max_messages',
  'lease_timeout_millis',
  'start_offset',
  'stream_created_at_ms',
]

export class Session implements SocketListener {
  readonly #parts: SessionParts
  readonly #outbox: Outbox
  readonly #pushes: Pushes
  readonly #held: HeldClaims
  readonly #binary: BinaryMessages
  readonly #items: TextItemsParts
  readonly #inbox: Inbox
  #who: SessionCaller
  #socket: MessageSocket | null = null
  #inFlight = 0
  #isStopping = false
  #isOver = false

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.#who = parts.who
    this.#held = new HeldClaims((claim, from) => parts.operations.firstLeased(claim, from))
    this.#outbox = new Outbox(parts.defer)
    this.#pushes = new Pushes({
      operations: parts.operations,
      releaseClaims: parts.releaseClaims,
      caller: () => this.#who,
      creditMax: parts.limits.creditMax,
      isHeldBack: () => this.#outbox.bufferedBytes > HELD_BACK_BYTES,
      deliver: (subscription, pushed) => this.#deliver(subscription, pushed),
      ended: ({ id, form }, error) => this.#refused(id, form, error, 1, true),
      idle: () => this.#endWhenIdle(),
      defer: parts.defer,
    })
    this.#binary = new BinaryMessages({
      operations: parts.operations,
      outbox: this.#outbox,
      bodyBytesMax: parts.bodyBytesMax,
      caller: () => this.#who,
      demand: (permission, stream) => this.#demand(permission, stream),
      begin: () => this.#begin(),
      finish: () => this.#finished(),
      refused: (id, error, count) => this.#refused(id, 'binary', error, count),
      settled: (subscriptionId) => this.#held.settled(subscriptionId, 1),
      request: (id, json) => this.#take(id, json),
      mayBegin: () => this.#mayBegin(),
      malformed: () => this.#end(CLOSE.protocol, 'the message does not consist of whole frames'),
    })
    this.#items = { mayBegin: () => this.#mayBegin(), begin: (item) => this.#takeJson(item) }
    this.#inbox = new Inbox({
      read: (bytes, isBinary, isOwn) => (isBinary ? this.#binary.framesOf(bytes, isOwn) : this.#text(bytes, isOwn)),
      waitingBytesMax: 2 * parts.limits.messageBytesMax,
      tooMuch: () => this.#end(CLOSE.policy, 'the client sent too much before its earlier messages were handled'),
      sliceDone: () => this.#outbox.flush(),
      turn: parts.turn,
      defer: parts.defer,
    })
  }

  get caller(): Caller {
    return this.#who
  }

  // Events of the socket

  opened(socket: MessageSocket): void {
    this.#socket = socket
    this.#outbox.open(socket)
  }

  message(bytes: Uint8Array<ArrayBuffer>, isBinary: boolean): void {
    this.#inbox.message(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), isBinary)
    this.#outbox.flush()
  }

  drained(): void {
    if (this.#outbox.bufferedBytes <= HELD_BACK_BYTES) this.#pushes.resume()
  }

  closed(): void {
    this.#isOver = true
    this.#socket = null
    this.#inbox.close()
    this.#outbox.close()
    this.#pushes.endAll()
    const claims = this.#held.take()
    if (claims.length > 0) this.#parts.releaseClaims(claims)
    this.#parts.onClosed()
  }

  /** C5 */
  stop(): void {
    this.#isStopping = true
    this.#pushes.endAll()
    this.#endWhenIdle()
  }

  // Events of the node

  /** C2. @param who null: the credentials are no longer valid */
  identified(who: SessionCaller | null): void {
    if (who === null) return this.#end(CLOSE.revoked, 'the credentials were revoked')
    this.#who = who
    for (const subscription of this.#pushes.open) {
      try {
        this.#demand('stream.consume', subscription.path.stream)
      } catch (error) {
        this.#pushes.end(subscription.id)
        this.#refused(subscription.id, subscription.form, error, 1, true)
      }
    }
  }

  // Messages

  /** C3. Whether the next operation may begin. */
  #mayBegin(): boolean {
    if (this.#isOver) return false
    if (this.#outbox.unreadBytes <= ANSWERS_UNREAD_BYTES_MAX + 2 * this.#parts.bodyBytesMax) return true
    this.#end(CLOSE.policy, 'the client does not read its answers')
    return false
  }

  /** @param isOwn whether the bytes may be written into */
  #text(bytes: Buffer, isOwn: boolean): TextItems | null | Promise<TextItems | null> {
    const { bodyBytesMax } = this.#parts
    if (bytes.byteLength > bodyBytesMax) {
      const why = `a message of text must not exceed ${bodyBytesMax} bytes`
      return this.#refuseUnreadable(refuse('payload_too_large', why))
    }
    try {
      const read = readJsonBody(bytes, isOwn, longStringEncodingOf, () => this.#isOver)
      if (!(read instanceof Promise)) return new TextItems(read.value, this.#items)
      return read.then(
        (read) => read && new TextItems(read.value, this.#items),
        (error: unknown) => this.#refuseUnreadable(error),
      )
    } catch (error) {
      return this.#refuseUnreadable(error)
    }
  }

  #refuseUnreadable(error: unknown): null {
    if (this.#mayBegin()) this.#refused(null, 'json', refusalOfParse(error))
    return null
  }

  #takeJson(value: unknown): void {
    let id: number | null = null
    try {
      const message = messageOf(value)
      id = integerIn(message, 'id', 0, ID_MAX, null)
      this.#ask(id, 'json', message)
    } catch (error) {
      this.#refused(id, 'json', error)
    }
  }

  /** Handles a request in a frame. It must be short, as records have their own frames. */
  #take(id: number, json: Buffer): void {
    try {
      if (json.byteLength > SHORT_BODY_BYTES) {
        throw refuse('payload_too_large', `a REQUEST must not exceed ${SHORT_BODY_BYTES} bytes`)
      }
      const read = readJsonBody(json, false, longStringEncodingOf, () => this.#isOver) as { readonly value: unknown } // at once, as it is short
      this.#ask(id, 'binary', messageOf(read.value))
    } catch (error) {
      this.#refused(id, 'binary', refusalOfParse(error))
    }
  }

  /** @throws BrokerError */
  #ask(id: number, form: Form, message: Message): void {
    const { op, stream } = message
    if (op === 'credit' || op === 'unsubscribe') return this.#changeSubscription(id, form, op, message)
    if (op === 'ping') {
      checkFields(message, [])
      return this.#answered(id, form, {})
    }
    const row = typeof op === 'string' && Object.hasOwn(REQUESTS, op) ? REQUESTS[op]! : null
    if (row === null && op !== 'subscribe') {
      throw refuse('invalid_request', `op must be one of ${OPERATION_NAMES.join(', ')}`)
    }
    this.#demand(row?.permission ?? 'stream.consume', typeof stream === 'string' && isStreamName(stream) ? stream : '')
    checkFields(message, row?.fields ?? SUBSCRIBE_FIELDS)
    if (row === null) return this.#subscribe(id, form, message)
    this.#begin()
    const answer: Answer<object> = {
      answered: (reply) => {
        this.#answered(id, form, reply)
        this.#finished()
      },
      refused: (error) => {
        this.#refused(id, form, error)
        this.#finished()
      },
    }
    try {
      row.ask(message, this.#asking, answer)
    } catch (error) {
      answer.refused(error)
    }
  }

  get #asking(): Asking {
    return {
      operations: this.#parts.operations,
      caller: this.#who,
      demand: (permission, stream) => this.#demand(permission, stream),
      settled: (subscriptionId, deliveries) => this.#held.settled(subscriptionId, deliveries),
    }
  }

  // Subscriptions

  #subscribe(id: number, form: Form, message: Message): void {
    const { stream, consumer_group } = message
    const path = { stream: streamNamed(stream), group: tokenNamed(consumer_group, 'consumer group') }
    const subscription: NewSubscription = {
      id,
      form,
      path,
      credit: integerIn(message, 'credit', 0, this.#parts.limits.creditMax, null),
      max: integerIn(message, 'max_messages', 1, CLAIM_MESSAGES_MAX, CLAIM_MESSAGES_MAX),
      leaseMs: integerIn(message, 'lease_timeout_millis', 1, DURATION_MS_MAX, LEASE_TIMEOUT_MS_DEFAULT),
      startOffset: integerIn(message, 'start_offset', 0, OFFSET_MAX, 0),
      streamCreatedAtMs: createdAtIn(message),
    }
    if (this.#isStopping) throw stopping()
    if (this.#pushes.has(id)) throw refuse('invalid_request', 'a subscription with this id is already open')
    if (this.#pushes.count >= SUBSCRIPTIONS_MAX) {
      throw refuse('quota_exceeded', `a connection has at most ${SUBSCRIPTIONS_MAX} subscriptions`)
    }
    this.#answered(id, form, { subscription: id, credit: subscription.credit })
    this.#pushes.begin(subscription)
  }

  #changeSubscription(id: number, form: Form, op: 'credit' | 'unsubscribe', message: Message): void {
    checkFields(message, op === 'credit' ? ['subscription', 'credit'] : ['subscription'])
    const subscription = integerIn(message, 'subscription', 0, ID_MAX, null)
    if (op === 'unsubscribe') {
      if (!this.#pushes.end(subscription)) throw noSubscription()
      return this.#answered(id, form, { subscription })
    }
    const more = integerIn(message, 'credit', 1, this.#parts.limits.creditMax, null)
    const left = this.#pushes.addCredit(subscription, more)
    if (left === null) throw noSubscription()
    const { credit, streamCreatedAtMs: createdAtMs } = left
    this.#answered(id, form, {
      subscription,
      credit,
      ...(createdAtMs !== null && { stream_created_at_ms: createdAtMs }),
    })
  }

  #deliver({ id, form }: NewSubscription, pushed: Pushed): void {
    if (this.#parts.releasesLeasesOnClose) this.#held.add(pushed)
    const { message } = pushed
    if (form === 'binary') {
      new DataView(message.buffer, message.byteOffset).setUint32(8, id, true)
      return this.#outbox.frame(message)
    }
    this.#outbox.text(Buffer.concat([Buffer.from(`{"id":${id},"deliveries":`), message, CLOSE_BRACE]))
  }

  // Answers

  #answered(id: number, form: Form, reply: object): void {
    if (form === 'json') return this.#outbox.text(`{"id":${id},"ok":${JSON.stringify(reply)}}`)
    const frames = this.#outbox.frames()
    frames.begin(ANSWER, 0, id, '')
    frames.text(JSON.stringify(reply))
    frames.end(1)
  }

  /** @param id null: the message had none @param isEnd the refusal ends a subscription */
  #refused(id: number | null, form: Form, error: unknown, count = 1, isEnd = false): void {
    if (isFailure(error)) this.#parts.onFailure(error)
    const refused = refusalOf(error)
    const { status, detail, retryable, retryAfterSeconds, code } = refused
    this.#parts.counters.refused(code)
    const saysWhen = retryable && (status === 429 || status === 503)
    const said = { status, ...(saysWhen && { retry_after_seconds: retryAfterSeconds }), error: detail }
    if (form === 'json') {
      return this.#outbox.text(JSON.stringify(isEnd ? { id, ended: true, ...said } : { id, ...said }))
    }
    const frames = this.#outbox.frames()
    frames.begin(isEnd ? ENDED : REFUSED, 0, id ?? 0, '')
    frames.text(JSON.stringify(said))
    frames.end(count)
  }

  /** @throws BrokerError authorization_denied */
  #demand(permission: Permission, stream: string): void {
    if (this.#who.grants.allow(permission, stream)) return
    const refused = denied(permission)
    this.#parts.onDenied(this.#who, refused, stream)
    throw refused
  }

  /** C3, C5. @throws BrokerError */
  #begin(): void {
    if (this.#isStopping) throw stopping()
    const { inFlightMax } = this.#parts.limits
    if (this.#inFlight >= inFlightMax) {
      throw refuse('quota_exceeded', `a connection has at most ${inFlightMax} operations in flight`)
    }
    this.#inFlight += 1
  }

  #finished(): void {
    this.#inFlight -= 1
    if (this.#isStopping) this.#endWhenIdle()
  }

  #endWhenIdle(): void {
    if (!this.#isStopping || this.#inFlight > 0 || this.#pushes.isClaiming) return
    this.#end(CLOSE.goingAway, 'the node is stopping')
  }

  #end(code: number, reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#inbox.close()
    // Deferred, as this may be a callback of the log or of the WebSocket library.
    this.#parts.defer(() => {
      this.#outbox.flush()
      this.#socket?.end(code, reason)
    })
  }
}

/** Null: the stream that has the name is meant. @throws BrokerError invalid_request */
const createdAtIn = (message: Message): number | null =>
  (message['stream_created_at_ms'] ?? null) === null
    ? null
    : integerIn(message, 'stream_created_at_ms', 0, Number.MAX_SAFE_INTEGER, null)

/** Turns errors about the JSON of a message into refusals. */
function refusalOfParse(error: unknown): unknown {
  if (error instanceof JsonBoundError) return refuse('invalid_request', error.message)
  if (error instanceof SyntaxError) return refuse('invalid_request', 'the message is not valid JSON in UTF-8')
  return error
}

const OPERATION_NAMES = [...Object.keys(REQUESTS), 'subscribe', 'credit', 'unsubscribe', 'ping']
const CLOSE_BRACE = Buffer.from('}')

const stopping = (): BrokerError => refuse('internal_error', STOPPING, { retryable: true })
const noSubscription = (): BrokerError => refuse('invalid_request', 'no subscription with this id is open')
