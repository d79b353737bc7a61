/**
 * Traces of a service: a span for each request, in the trace that its `traceparent` names, and below it spans of what it waits for. The asynchronous
 * context tells for which request work is done; there is a tracer only when spans are exported.
 *
 * A span says no more of a request than the access log.
 *
 * T1  when the sampler follows the parent, a request that its caller does not record is not recorded here, nor is anything below it
 *
 * Sources: W3C Trace Context (traceparent), OpenTelemetry semantic conventions for HTTP.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Sampler } from '../config/tracing.ts'

const SPAN_KIND_INTERNAL = 1
const SPAN_KIND_SERVER = 2

export interface Span {
  /** Hexadecimal digits. */
  readonly traceId: string
  readonly spanId: string
  /** '': it has none. */
  readonly parentSpanId: string
  readonly name: string
  readonly kind: number
  /** Unix epoch. */
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Readonly<Record<string, string | number>>
  readonly isError: boolean
}

export interface TracerParts {
  /** Fills the bytes with randomness. */
  readonly random: (bytes: Uint8Array) => void
  readonly clock: { nowMs(): number; wallMs(): number }
  readonly sampler: Sampler
  readonly ended: (span: Span) => void
}

interface Place {
  readonly traceId: string
  readonly spanId: string
}

interface Begun {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly remoteAddress: string
  readonly header: (name: string) => string
}

interface Ended {
  readonly route: string
  readonly status: number
  readonly receivedBytes: number
  readonly sentBytes: number
  readonly tenant: string | null
  readonly principal: string | null
}

const PATH_CHARACTERS_MAX = 1024
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/
const NOTHING = (): void => {}

export class Tracer {
  readonly #parts: TracerParts
  readonly #present = new AsyncLocalStorage<Place>()

  constructor(parts: TracerParts) {
    this.#parts = parts
  }

  /** Begins the span of a request. Null: it is not recorded. */
  watch({ id, method, path, remoteAddress, header }: Begun) {
    const parent = parentOf(header('traceparent'))
    const traceId = parent?.traceId ?? this.#id(16)
    if (!this.#isSampled(parent?.isSampled ?? null, traceId)) return null
    const { nowMs, startMs } = this.#start()
    const place = { traceId, spanId: this.#id(8) }
    return {
      runWithin: (run: () => void): void => this.#present.run(place, run),
      ended: ({ route, status, receivedBytes, sentBytes, tenant, principal }: Ended): void =>
        this.#parts.ended({
          ...place,
          parentSpanId: parent?.spanId ?? '',
          name: route,
          kind: SPAN_KIND_SERVER,
          startMs,
          endMs: startMs + this.#parts.clock.nowMs() - nowMs,
          attributes: {
            'http.request.method': method,
            'http.route': route,
            'url.path': path.slice(0, PATH_CHARACTERS_MAX),
            'http.response.status_code': status,
            'http.request.body.size': receivedBytes,
            'http.response.body.size': sentBytes,
            'client.address': remoteAddress,
            'trilog.request_id': id,
            ...(tenant !== null && { 'trilog.tenant': tenant }),
            ...(principal !== null && { 'enduser.id': principal }),
          },
          isError: status === 0 || status >= 500,
        }),
    }
  }

  /** @see BeginSpan */
  readonly beginSpan = (name: string): (() => void) => {
    const parent = this.#present.getStore()
    if (parent === undefined) return NOTHING
    const { nowMs, startMs } = this.#start()
    return () =>
      this.#parts.ended({
        traceId: parent.traceId,
        spanId: this.#id(8),
        parentSpanId: parent.spanId,
        name,
        kind: SPAN_KIND_INTERNAL,
        startMs,
        endMs: startMs + this.#parts.clock.nowMs() - nowMs,
        attributes: {},
        isError: false,
      })
  }

  #start(): { readonly nowMs: number; readonly startMs: number } {
    const { clock } = this.#parts
    return { nowMs: clock.nowMs(), startMs: clock.wallMs() }
  }

  #id(bytes: number): string {
    const id = Buffer.allocUnsafe(bytes)
    this.#parts.random(id)
    return id.toString('hex')
  }

  /** T1. A share of traces is decided by their ids, so that all processes of a trace decide alike. */
  #isSampled(ofParent: boolean | null, traceId: string): boolean {
    const { followsParent, share } = this.#parts.sampler
    if (followsParent && ofParent !== null) return ofParent
    return share === 1 || (share > 0 && Number.parseInt(traceId.slice(-8), 16) / 2 ** 32 < share)
  }
}

/** Null: the request has none that can be read. */
function parentOf(traceparent: string): (Place & { readonly isSampled: boolean }) | null {
  const [, version, traceId = '', spanId = '', flags = '', rest] = TRACEPARENT.exec(traceparent.trim()) ?? []
  const isKnown = version !== undefined && version !== 'ff' && (version !== '00' || rest === undefined)
  if (!isKnown || ZEROS.test(traceId) || ZEROS.test(spanId)) return null
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}
