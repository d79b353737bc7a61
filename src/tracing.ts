/** Traces of the process: a tracer for each of its services, and one exporter for all, as the settings ask for it. */
import { randomFillSync } from 'node:crypto'
import type { TracingConfig } from './config/tracing.ts'
import { Poster } from './http/poster.ts'
import type { Logger } from './observability/logger.ts'
import { SpanExporter } from './observability/span-exporter.ts'
import { systemClock } from './observability/system-clock.ts'
import { Tracer } from './observability/tracer.ts'

const POST_MS = 10_000
/** How long the end of the process waits for the export of the last spans. */
const CLOSE_MS = 1000
/** The export of traces is not traced: a log store that receives its own traces would export without end. */
const UNSAMPLED = '00-00000000000000000000000000000001-0000000000000001-00'

export class Tracing {
  readonly #config: TracingConfig
  readonly #exporter: SpanExporter
  readonly #poster = new Poster()
  readonly #ending = new AbortController()

  constructor(config: TracingConfig, { version, logger }: { readonly version: string; readonly logger: Logger }) {
    this.#config = config
    this.#exporter = new SpanExporter({
      resource: { 'service.version': version, ...config.resource },
      post: (body) => this.#post(body),
      clock: systemClock,
      logger,
    })
  }

  tracerOf(service: string): Tracer {
    return new Tracer({
      random: randomFillSync,
      clock: systemClock,
      sampler: this.#config.sampler,
      ended: (span) => this.#exporter.add(service, span),
    })
  }

  async close(): Promise<void> {
    const stop = systemClock.wait(CLOSE_MS, () => this.#ending.abort())
    await this.#exporter.close()
    stop()
    this.#poster.close()
  }

  async #post(body: Buffer): Promise<void> {
    const { url, headers: own } = this.#config
    const headers = { 'content-type': 'application/json', traceparent: UNSAMPLED, ...own }
    const { signal } = this.#ending
    const { status } = await this.#poster.post({
      url,
      tls: { ca: null, certificate: null },
      headers,
      body,
      timeoutMs: POST_MS,
      signal,
    })
    if (status >= 300) throw new Error(`${new URL(url).origin} answered ${status}`)
  }
}
