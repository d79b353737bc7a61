/**
 * The connection of a client to a broker over HTTP, at one address or several.
 *
 * C1  a call rejects with an SdkError. A non-2xx answer is an HttpBrokerError that says what the broker said
 * C2  all calls go to one address, and after a connection failure to the next one. A call is repeated there only if nothing of it was sent,
 *     or if a second time does no more than the first; with one address a repeatable call has a second try there. A node that hangs keeps its
 *     connections, so later calls leave an address without an answer in time as well. The call itself is not repeated: its time is over
 * C3  calls that are answered at once and those that wait for a record have connections of their own, so that a waiting call does not delay others
 * C4  after `close` no call is sent; earlier calls are waited for, and waits are ended
 * C5  no error says what was sent: neither headers nor bodies
 * C6  a node that does not lead its cluster has done nothing, so any call is repeated at the leader, if that is one of the addresses, or else at
 *     the next address. When none of them leads, the refusal is thrown, which says that it is worth trying again
 */
import { BrokerError, refusalOf } from '../../broker/refusals.ts'
import { isObject } from '../../plain-objects.ts'
import { pauseOn } from '../pause.ts'
import type { ClientTimers, Pause } from '../pause.ts'
import type { Waiting } from '../retry.ts'
import { HttpBrokerError, SdkError, aborted, brokerRefused, transportFailed } from '../sdk-error.ts'
import { Abandonment, abandonable } from './abandonment.ts'
import type { TransportCode } from '../sdk-error.ts'
import type { HttpConfig } from './settings.ts'
import { Slots } from './slots.ts'
import { NotSent } from './transport.ts'
import type { HttpAnswer, HttpRequest, HttpTransport } from './transport.ts'

export interface HttpCall extends Pick<HttpRequest, 'method' | 'path' | 'body'> {
  /** A second time does no more than the first. */
  readonly isRepeatable: boolean
  /** How long the broker may wait before it answers, because it was asked to; default 0. */
  readonly waitMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface HttpConnectionParts {
  readonly config: HttpConfig
  readonly transport: HttpTransport
  readonly timers: ClientTimers
  /** At least 0, below 1. */
  readonly random: () => number
}

const NEVER = new AbortController().signal

export class HttpConnection implements Waiting {
  readonly pause: Pause
  readonly random: () => number
  readonly timers: ClientTimers
  readonly #config: HttpConfig
  readonly #headers: HttpRequest['headers']
  readonly #bodyHeaders: HttpRequest['headers']
  readonly #transport: HttpTransport
  readonly #answered: Slots
  readonly #waiting: Slots
  readonly #closing = new AbortController()
  /** One for each request on its way. */
  readonly #requests = new Set<Abandonment>()
  #isClosed = false
  #closed: Promise<void> | null = null
  #inFlight = 0
  #idle: () => void = () => {}
  /** Index of the address that is used. */
  #current = 0

  constructor({ config, transport, timers, random }: HttpConnectionParts) {
    this.#config = config
    this.#headers = config.headers
    this.#bodyHeaders = { ...config.headers, 'content-type': 'application/json' }
    this.#transport = transport
    this.#answered = new Slots(config.maxConnections, config.maxQueuedCalls)
    this.#waiting = new Slots(config.maxWaitingConnections, config.maxQueuedCalls)
    this.timers = timers
    this.pause = pauseOn(timers)
    this.random = random
  }

  /** Aborted by `close`: ends waits and subscriptions. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** C1. For calls that need no broker. */
  check<T>(run: () => T): T {
    try {
      return run()
    } catch (error) {
      throw this.#wrong(error)
    }
  }

  /**
   * C1 to C4.
   *
   * @param make makes the call; an error that it throws, before anything is sent, becomes an SdkError, too
   * @param read reads the answer; when it throws, the answer is not that of a broker
   */
  async ask<T>(make: () => HttpCall, read: (text: string) => T): Promise<T> {
    if (this.#isClosed) throw transportFailed('client_closed', 'the client is closed')
    this.#inFlight += 1
    try {
      const call = make()
      const text = (call.waitMs ?? 0) > 0 ? await this.#waited(call) : await this.#inTurn(call, this.#answered)
      return readWith(read, text)
    } catch (error) {
      throw this.#wrong(error)
    } finally {
      this.#inFlight -= 1
      if (this.#inFlight === 0) this.#idle()
    }
  }

  /** C4 */
  close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    this.#closed ??= this.#close(withinMs)
    return this.#closed
  }

  async #close(withinMs: number): Promise<void> {
    this.#closing.abort() // subscriptions give back what they hold
    if (this.#inFlight > 0) {
      const ended = new AbortController()
      this.#idle = () => ended.abort()
      await this.pause(withinMs, ended.signal)
    }
    this.#isClosed = true
    for (const request of this.#requests) request.abandon()
    this.#transport.close?.()
  }

  /** C4. A call that waits ends when the client is closed, or when its own signal is aborted. */
  async #waited(call: HttpCall): Promise<string> {
    const stop = new AbortController()
    const end = (): void => stop.abort()
    const signals = call.signal === undefined ? [this.closing] : [this.closing, call.signal]
    for (const signal of signals) {
      if (signal.aborted) end()
      signal.addEventListener('abort', end, { once: true })
    }
    try {
      return await this.#inTurn({ ...call, signal: stop.signal }, this.#waiting)
    } finally {
      for (const signal of signals) signal.removeEventListener('abort', end)
    }
  }

  /** C3 */
  async #inTurn(call: HttpCall, slots: Slots): Promise<string> {
    const slot = slots.take(call.signal ?? NEVER)
    if (slot !== null) await slot
    try {
      return await this.#tried(call)
    } finally {
      slots.give()
    }
  }

  /** C2, C6 */
  async #tried(call: HttpCall): Promise<string> {
    const { origins } = this.#config
    let moves = 0
    for (let tries = 1; ; tries += 1) {
      const index = this.#current
      try {
        return await this.#asked(origins[index]!, call)
      } catch (error) {
        if (error instanceof NotLeading) {
          moves += 1
          if (this.#current === index) this.#current = placeOf(error.leader, index, origins)
          if (moves > origins.length || this.#current === index || this.#isClosed) throw error
          continue
        }
        const isFailed = error instanceof SdkError && error.code === 'connection_failed'
        const isLost = error instanceof SdkError && error.code === 'connection_lost'
        if (!isFailed && !isLost && !(error instanceof TooLate)) throw error
        if (this.#current === index) this.#current = (index + 1) % origins.length
        if (error instanceof TooLate) throw error // its caller has waited long enough
        const isLast = tries >= Math.max(origins.length, isLost ? 2 : 1)
        if (isLast || !(isFailed || call.isRepeatable) || this.#isClosed) throw error
      }
    }
  }

  async #asked(origin: string, call: HttpCall): Promise<string> {
    const { method, path, body, signal, waitMs = 0 } = call
    const request = new Abandonment()
    const stop = (): void => request.abandon()
    let isLate = false
    const cancelTimer = this.timers.wait(this.#config.requestTimeoutMs + waitMs, () => {
      isLate = true
      stop()
    })
    this.#requests.add(request)
    signal?.addEventListener('abort', stop, { once: true })
    try {
      if (signal?.aborted) throw aborted()
      const headers = body === null ? this.#headers : this.#bodyHeaders
      const answer = await this.#transport.send(abandonable({ origin, method, path, headers, body }, request))
      return textOf(answer)
    } catch (error) {
      if (error instanceof SdkError || error instanceof BrokerError) throw error
      if (signal?.aborted) throw aborted()
      throw failed(error, { origin, isLate, isClosed: this.#isClosed, isRepeatable: call.isRepeatable })
    } finally {
      cancelTimer()
      signal?.removeEventListener('abort', stop)
      this.#requests.delete(request)
    }
  }

  /** C1 */
  #wrong(error: unknown): SdkError {
    if (error instanceof SdkError) return error
    if (error instanceof BrokerError) return brokerRefused(refusalOf(error), error)
    return transportFailed('bad_answer', 'the client failed unexpectedly, and has no answer', { cause: error })
  }
}

/** C6 */
class NotLeading extends HttpBrokerError {
  readonly leader: string | null

  constructor(answer: ConstructorParameters<typeof HttpBrokerError>[0], leader: string | null) {
    super(answer)
    this.leader = leader
  }
}

/** C2. The time of a request was over before its answer, or before it had a connection. */
class TooLate extends SdkError {
  constructor(code: TransportCode, message: string, options: ErrorOptions & { retryable: boolean }) {
    super('Transport', code, message, options)
  }
}

/** C6. Credentials go to no other address than those that the client was given. */
function placeOf(leader: string | null, index: number, origins: readonly string[]): number {
  const origin = leader !== null && URL.canParse(leader) ? new URL(leader).origin : null // URL.parse is newer than some browsers
  const place = origins.findIndex((each) => each === origin)
  return place >= 0 && place !== index ? place : (index + 1) % origins.length
}

interface Circumstances {
  readonly origin: string
  readonly isLate: boolean
  readonly isClosed: boolean
  readonly isRepeatable: boolean
}

/** C5 */
function failed(cause: unknown, { origin, isLate, isClosed, isRepeatable }: Circumstances): SdkError {
  if (isClosed) return transportFailed('client_closed', 'the client was closed before the answer', { cause })
  if (cause instanceof NotSent) {
    const there = `there is no connection to ${origin}`
    const options = { cause, retryable: true }
    return isLate
      ? new TooLate('connection_failed', there, options)
      : transportFailed('connection_failed', there, options)
  }
  if (isLate) return new TooLate('timeout', `${origin} did not answer in time`, { cause, retryable: isRepeatable })
  return transportFailed('connection_lost', `the connection to ${origin} was lost before the answer`, {
    cause,
    retryable: isRepeatable,
  })
}

/** Body of a success. @throws HttpBrokerError */
function textOf(answer: HttpAnswer): string {
  const { status, text } = answer
  if (status >= 200 && status < 300) return text
  throw refusalIn(answer)
}

function readWith<T>(read: (text: string) => T, text: string): T {
  try {
    return read(text)
  } catch (cause) {
    throw transportFailed('bad_answer', 'the answer is not that of a broker', { cause: nameOf(cause) })
  }
}

/** C5: the message of a parser shows a piece of what it read. */
const nameOf = (error: unknown): string => (error instanceof Error ? error.name : typeof error)

/** Statuses of failures that pass, for answers of proxies, which have no code of the broker. */
const PASSING = new Set([408, 429, 502, 503, 504])

function refusalIn({ status, retryAfter, leader = null, text }: HttpAnswer): HttpBrokerError {
  const seconds = retryAfter !== null && /^[0-9]{1,9}$/.test(retryAfter) ? Number(retryAfter) : null
  const said = errorIn(text)
  const answer = {
    status,
    code: said.code ?? `http_${status}`,
    message: said.message ?? `the answer has the status ${status}, and is not a broker's`,
    action: said.action ?? 'Check the address of the broker, and any proxy between it and the client.',
    retryable: said.retryable ?? PASSING.has(status),
    retryAfterSeconds: seconds,
  }
  return answer.code === 'not_leading' ? new NotLeading(answer, leader) : new HttpBrokerError(answer)
}

interface Said {
  readonly code?: string
  readonly message?: string
  readonly action?: string
  readonly retryable?: boolean
}

/** The fields of an error that the answer has. */
function errorIn(text: string): Said {
  const body = parsed(text)
  const error = isObject(body) ? body['error'] : null
  if (!isObject(error) || typeof error['code'] !== 'string') return {}
  const { code, message, action, retryable } = error
  return {
    code,
    ...(typeof message === 'string' && { message }),
    ...(typeof action === 'string' && { action }),
    ...(typeof retryable === 'boolean' && { retryable }),
  }
}

/** Null: it is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
