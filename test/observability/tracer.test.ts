import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Tracer } from '../../src/observability/tracer.ts'
import type { Span } from '../../src/observability/tracer.ts'
import { withSpans } from '../../src/spans.ts'
import { nextTurn } from '../support/next-turn.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const ALL = { followsParent: true, share: 1 }
const ENDED = { route: 'GET /a', status: 200, receivedBytes: 1, sentBytes: 2, tenant: 'acme', principal: null }

class Rig {
  readonly spans: Span[] = []
  readonly clock = { ms: 0, nowMs: (): number => this.clock.ms, wallMs: (): number => 1000 + this.clock.ms }
  readonly tracer: Tracer
  #next = 0

  constructor(sampler = ALL) {
    this.tracer = new Tracer({
      random: (bytes) => bytes.fill(++this.#next),
      clock: this.clock,
      sampler,
      ended: (span) => void this.spans.push(span),
    })
  }

  begin(traceparent = '') {
    const header = (name: string): string => (name === 'traceparent' ? traceparent : '')
    return this.tracer.watch({ id: 'r-1', method: 'GET', path: '/a', remoteAddress: '::1', header })
  }
}

describe('a request', () => {
  it('goes on in the trace of its caller', () => {
    const rig = new Rig()
    const watched = rig.begin(`00-${TRACE}-${PARENT}-01`)!
    rig.clock.ms = 5
    watched.ended(ENDED)
    const [span] = rig.spans
    assert.deepEqual([span!.traceId, span!.parentSpanId, span!.name, span!.kind], [TRACE, PARENT, 'GET /a', 2])
    assert.deepEqual([span!.startMs, span!.endMs, span!.isError], [1000, 1005, false])
    assert.equal(span!.attributes['http.response.status_code'], 200)
    assert.equal(span!.attributes['trilog.tenant'], 'acme')
    assert.ok(!('enduser.id' in span!.attributes))
  })

  it('begins a trace when it has no caller that can be read', () => {
    for (const bad of [
      '',
      'x',
      `00-${'0'.repeat(32)}-${PARENT}-01`,
      `ff-${TRACE}-${PARENT}-01`,
      `00-${TRACE}-${PARENT}-01-x`,
    ]) {
      const rig = new Rig()
      rig.begin(bad)!.ended(ENDED)
      assert.deepEqual([rig.spans[0]!.parentSpanId, rig.spans[0]!.traceId], ['', '01'.repeat(16)], bad)
    }
  })

  it('is recorded as its caller decided, or as the share of traces says', () => {
    assert.equal(new Rig().begin(`00-${TRACE}-${PARENT}-00`), null)
    assert.notEqual(new Rig({ followsParent: false, share: 1 }).begin(`00-${TRACE}-${PARENT}-00`), null)
    assert.notEqual(new Rig({ followsParent: true, share: 0 }).begin(`00-${TRACE}-${PARENT}-01`), null)
    assert.equal(new Rig({ followsParent: true, share: 0 }).begin(), null)
    // The id begins with 1c80319c, which is a ninth of the whole range.
    assert.equal(new Rig({ followsParent: false, share: 0.1 }).begin(`00-${TRACE}-${PARENT}-01`), null)
    assert.notEqual(new Rig({ followsParent: false, share: 0.12 }).begin(`00-${TRACE}-${PARENT}-01`), null)
  })

  it('that failed here, or whose client went away, is an error; one that was refused is none', () => {
    const rig = new Rig()
    for (const status of [500, 0, 404]) rig.begin()!.ended({ ...ENDED, status })
    assert.deepEqual(
      rig.spans.map(({ isError }) => isError),
      [true, true, false],
    )
  })
})

describe('work', () => {
  it('is a span below the request that it is done for, however many turns that takes', async () => {
    const rig = new Rig()
    const jobs = withSpans({ run: (_name: string) => nextTurn() }, rig.tracer.beginSpan, 'read')
    const watched = rig.begin()!
    const done: Promise<unknown>[] = []
    watched.runWithin(() => {
      const end = rig.tracer.beginSpan('commit')
      done.push(jobs.run('a').then(end))
    })
    await Promise.all(done)
    watched.ended(ENDED)
    const [read, commit, request] = rig.spans
    assert.deepEqual([read!.name, commit!.name, request!.name], ['read', 'commit', 'GET /a'])
    for (const span of [read!, commit!]) {
      assert.deepEqual([span.parentSpanId, span.traceId, span.kind], [request!.spanId, request!.traceId, 1])
    }
  })

  it('of nobody is no span', () => {
    const rig = new Rig()
    rig.tracer.beginSpan('commit')()
    assert.deepEqual(rig.spans, [])
  })

  it('is as it is where nobody looks', () => {
    const jobs = { run: () => Promise.resolve() }
    assert.equal(withSpans(jobs, null, 'read'), jobs)
  })
})
