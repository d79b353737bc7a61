/**
 * Sends spans to a collector as OTLP/HTTP JSON, in batches. A collector that is away, or slow, costs spans and nothing else.
 *
 * X1  at most QUEUE_MAX spans wait; those that come when it is full are dropped, and so is a batch that was not taken
 * X2  one batch is on its way at a time
 *
 * Source: OTLP specification, "OTLP/HTTP", JSON encoding: ids in hexadecimal digits, 64-bit numbers as text.
 */
import { messageOf } from '../errors.ts'
import type { Logger } from './logger.ts'
import type { Span } from './tracer.ts'

const QUEUE_MAX = 4096
const BATCH_MAX = 512
const FLUSH_EVERY_MS = 1000
const WARN_EVERY_MS = 60_000
const SCOPE = 'trilog'
const STATUS_ERROR = 2

/** A span, and its service of this process. */
interface Queued {
  readonly service: string
  readonly span: Span
}

export interface SpanExporterParts {
  /** Describes the process; part of all spans. */
  readonly resource: Readonly<Record<string, string>>
  /** Rejects when the collector did not take it. */
  readonly post: (body: Buffer) => Promise<void>
  readonly clock: { nowMs(): number; every(intervalMs: number, task: () => void): () => void }
  readonly logger: Pick<Logger, 'warn'>
}

export class SpanExporter {
  /** Spans that no collector got. */
  dropped = 0
  readonly #parts: SpanExporterParts
  readonly #stop: () => void
  #queue: Queued[] = []
  #sending: Promise<void> | null = null
  #warnedMs = -Infinity

  constructor(parts: SpanExporterParts) {
    this.#parts = parts
    this.#stop = parts.clock.every(FLUSH_EVERY_MS, () => this.#send())
  }

  /** X1 */
  add(service: string, span: Span): void {
    if (this.#queue.length >= QUEUE_MAX) return void this.dropped++
    if (this.#queue.push({ service, span }) >= BATCH_MAX) this.#send()
  }

  /** Sends what waits; how long that may take is up to `post`. */
  async close(): Promise<void> {
    this.#stop()
    await this.#sending
    while (this.#queue.length > 0) {
      this.#send()
      await this.#sending
    }
  }

  /** X2 */
  #send(): void {
    if (this.#sending !== null || this.#queue.length === 0) return
    const batch = this.#queue.splice(0, BATCH_MAX)
    const body = Buffer.from(JSON.stringify(this.#requestOf(batch)))
    this.#sending = this.#parts
      .post(body)
      .catch((error: unknown) => this.#lost(batch.length, error))
      .finally(() => {
        this.#sending = null
        if (this.#queue.length >= BATCH_MAX) this.#send()
      })
  }

  #lost(count: number, error: unknown): void {
    this.dropped += count
    const nowMs = this.#parts.clock.nowMs()
    if (nowMs - this.#warnedMs < WARN_EVERY_MS) return
    this.#warnedMs = nowMs
    const details = { reason: messageOf(error), dropped: this.dropped }
    this.#parts.logger.warn(details, 'spans were dropped: the collector of traces does not accept them')
  }

  /** An ExportTraceServiceRequest. */
  #requestOf(batch: readonly Queued[]): object {
    const services = new Set(batch.map(({ service }) => service))
    return {
      resourceSpans: Array.from(services, (service) => ({
        resource: { attributes: attributesOf({ ...this.#parts.resource, 'trilog.service': service }) },
        scopeSpans: [
          {
            scope: { name: SCOPE },
            spans: batch.filter((each) => each.service === service).map(({ span }) => jsonOf(span)),
          },
        ],
      })),
    }
  }
}

const jsonOf = ({ traceId, spanId, parentSpanId, name, kind, startMs, endMs, attributes, isError }: Span): object => ({
  traceId,
  spanId,
  ...(parentSpanId !== '' && { parentSpanId }),
  name,
  kind,
  startTimeUnixNano: nanoseconds(startMs),
  endTimeUnixNano: nanoseconds(endMs),
  attributes: attributesOf(attributes),
  ...(isError && { status: { code: STATUS_ERROR } }),
})

const attributesOf = (attributes: Readonly<Record<string, string | number>>): object[] =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === 'string' ? { stringValue: value } : { intValue: String(value) },
  }))

/** To the microsecond: a double has no more. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1000)}000`
