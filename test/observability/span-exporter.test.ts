import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SpanExporter } from '../../src/observability/span-exporter.ts'
import type { Span } from '../../src/observability/tracer.ts'
import { TestClock } from '../support/http-server.ts'
import { nextTurn } from '../support/next-turn.ts'

interface Request {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly object[] }
    readonly scopeSpans: readonly { readonly spans: readonly Record<string, unknown>[] }[]
  }[]
}

class Collector {
  readonly clock = new TestClock()
  readonly requests: Request[] = []
  readonly warnings: object[] = []
  /** Lets the batch on its way arrive, or fail with an error. */
  settle: ((error?: Error) => void) | null = null
  readonly exporter = new SpanExporter({
    resource: { 'service.name': 'trilog' },
    post: (body) => {
      this.requests.push(JSON.parse(body.toString()) as Request)
      return new Promise((resolve, reject) => {
        this.settle = (error) => (error === undefined ? resolve() : reject(error))
      })
    },
    clock: this.clock,
    logger: { warn: (details) => void this.warnings.push(details) },
  })

  async answer(error?: Error): Promise<void> {
    this.settle!(error)
    this.settle = null
    await nextTurn()
  }

  get sizes(): number[] {
    return this.requests.map(({ resourceSpans }) => resourceSpans[0]!.scopeSpans[0]!.spans.length)
  }

  add(count: number): void {
    for (let i = 0; i < count; i++) this.exporter.add('broker', SPAN)
  }
}

const SPAN: Span = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  parentSpanId: '',
  name: 'GET /a',
  kind: 2,
  startMs: 1_790_000_000_000.25,
  endMs: 1_790_000_000_001.5,
  attributes: { 'http.route': 'GET /a', 'http.response.status_code': 500 },
  isError: true,
}

describe('spans for a collector', () => {
  it('are OTLP in JSON, by service', async () => {
    const collector = new Collector()
    collector.exporter.add('broker', SPAN)
    collector.exporter.add('logstore', { ...SPAN, parentSpanId: 'aaaaaaaaaaaaaaaa', isError: false })
    collector.clock.advanceMs(1000)
    const [{ resourceSpans }] = collector.requests as [Request]
    assert.deepEqual(
      resourceSpans.map(({ resource }) => resource.attributes[1]),
      ['broker', 'logstore'].map((stringValue) => ({ key: 'trilog.service', value: { stringValue } })),
    )
    assert.deepEqual(resourceSpans[0]!.scopeSpans[0]!.spans[0], {
      traceId: SPAN.traceId,
      spanId: SPAN.spanId,
      name: 'GET /a',
      kind: 2,
      startTimeUnixNano: '1790000000000250000',
      endTimeUnixNano: '1790000000001500000',
      attributes: [
        { key: 'http.route', value: { stringValue: 'GET /a' } },
        { key: 'http.response.status_code', value: { intValue: '500' } },
      ],
      status: { code: 2 },
    })
    const other = resourceSpans[1]!.scopeSpans[0]!.spans[0]!
    assert.deepEqual([other['parentSpanId'], 'status' in other], ['aaaaaaaaaaaaaaaa', false])
    await collector.answer()
  })

  it('go in batches, one at a time', async () => {
    const collector = new Collector()
    collector.add(1500)
    assert.deepEqual(collector.sizes, [512])
    await collector.answer()
    assert.deepEqual(collector.sizes, [512, 512])
    await collector.answer()
    collector.clock.advanceMs(1000)
    assert.deepEqual(collector.sizes, [512, 512, 476])
    await collector.answer()
  })

  it('are dropped when the collector is away, and beyond a bound of those that wait', async () => {
    const collector = new Collector()
    collector.add(10_000)
    assert.equal(collector.exporter.dropped, 10_000 - 4096 - 512)
    await collector.answer(new Error('connect ECONNREFUSED'))
    assert.equal(collector.exporter.dropped, 10_000 - 4096)
    assert.deepEqual(collector.warnings, [{ reason: 'connect ECONNREFUSED', dropped: 10_000 - 4096 }])
    await collector.answer(new Error('connect ECONNREFUSED'))
    assert.equal(collector.warnings.length, 1, 'it is said once a minute')
  })

  it('that wait are sent when the process ends', async () => {
    const collector = new Collector()
    collector.add(3)
    const closing = collector.exporter.close()
    await nextTurn()
    assert.deepEqual(collector.sizes, [3])
    await collector.answer()
    await closing
  })
})
