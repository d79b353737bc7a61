import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Metrics, restOf } from '../../src/observability/metrics.ts'
import { ProcessMetrics } from '../../src/observability/process-metrics.ts'
import { RequestMetrics } from '../../src/observability/request-metrics.ts'
import { Histogram } from '../../src/pipeline/histogram.ts'
import { Exposition } from '../support/exposition.ts'

describe('metrics', () => {
  it('are read when they are asked for, each service’s from a registry of its own', () => {
    const metrics = new Metrics()
    let count = 1
    metrics.counter({ name: 'test.things', help: 'things' }, () => count)
    metrics.counterBy({ name: 'test.refused', help: 'refusals' }, 'kind', () => new Map([['malformed', 2]]))
    metrics.gauge({ name: 'test_open', help: 'open' }, () => 7)
    const waits = Histogram.create([0.1, 1])
    metrics.histogram({ name: 'test.wait_seconds', help: 'waits' }, waits)
    waits.observe(0.5)
    waits.observe(3)
    count = 3
    assert.equal(
      metrics.text(),
      `# HELP test_things_total things
# TYPE test_things_total counter
test_things_total 3
# HELP test_refused_total refusals
# TYPE test_refused_total counter
test_refused_total{kind="malformed"} 2
# HELP test_open open
# TYPE test_open gauge
test_open 7
# HELP test_wait_seconds waits
# TYPE test_wait_seconds histogram
test_wait_seconds_bucket{le="0.1"} 0
test_wait_seconds_bucket{le="1"} 1
test_wait_seconds_bucket{le="+Inf"} 2
test_wait_seconds_sum 3.5
test_wait_seconds_count 2
`,
    )
    assert.equal(new Metrics().text(), '')
    assert.match(metrics.contentType, /^text\/plain; version=0\.0\.4/)
  })

  it('have their OpenTelemetry names in comments, where they are to be shown', () => {
    const metrics = new Metrics({ showsAliases: true })
    metrics.counter({ name: 'test.publish.records', help: 'records' }, () => 1)
    const { families } = new Exposition(metrics.text())
    assert.equal(families.get('test_publish_records_total')?.alias, 'test.publish.records')
  })

  it('show whoever asks what is of their scope', () => {
    const metrics = new Metrics<string>()
    metrics.gauges({ name: 'test_of', help: 'of' }, (scope) => [[{ scope }, 1]])
    assert.deepEqual(new Exposition(metrics.text('a')).labelsOf('test_of'), [{ scope: 'a' }])
  })

  it('are refused when a name is there twice, or is none', () => {
    const metrics = new Metrics()
    metrics.gauge({ name: 'test.a', help: 'a' }, () => 1)
    assert.throws(() => metrics.gauge({ name: 'test_a', help: 'a' }, () => 1), /two metrics test_a/)
    assert.throws(() => metrics.gauge({ name: 'test-b', help: 'b' }, () => 1), /no name/)
  })

  it('come back as they were, whatever labels, help and numbers have in them', () => {
    const number = fc.oneof(fc.double({ min: 0 }), fc.constantFrom(Infinity, Number.NaN, 0, 1e21, 1e-7))
    const text = fc.string({ unit: fc.constantFrom('\\', '\n', '"', 'n', ',', '=', '}', ' ', 'ä', '😀'), minLength: 1 })
    fc.assert(
      fc.property(text, text, number, (value, help, sample) => {
        const metrics = new Metrics()
        metrics.gauges({ name: 'test_g', help }, () => [[{ first: value, second: 'b' }, sample]])
        const family = new Exposition(metrics.text()).families.get('test_g')!
        assert.deepEqual(family.samples, [{ name: 'test_g', labels: { first: value, second: 'b' }, value: sample }])
        assert.equal(family.help, help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n'))
      }),
    )
  })

  it('tell the series of everything else from what somebody called other', () => {
    const metrics = new Metrics()
    metrics.gauges({ name: 'test_g', help: 'g' }, () => [
      [{ bucket: 'other' }, 1],
      [restOf('bucket'), 2],
    ])
    const shown = new Exposition(metrics.text())
    assert.equal(shown.value('test_g', { bucket: 'other' }), 1)
    assert.equal(shown.value('test_g', { bucket: 'other', summed: 'true' }), 2)
  })
})

describe('metrics of requests', () => {
  it('are by route and class of status; bodies are counted where there are some', () => {
    const requests = new RequestMetrics()
    requests.ended('GET /a', 200, 0.02, 0, 300)
    requests.ended('GET /a', 204, 0.02, 0, 0)
    requests.ended('GET /a', 404, 0.02, 0, 10)
    requests.ended('POST /a', 0, 7, 5000, 0)
    const metrics = new Metrics()
    requests.register(metrics, 'test')
    const shown = new Exposition(metrics.text())
    const duration = 'test_http_request_duration_seconds'
    assert.equal(shown.value(`${duration}_count`, { route: 'GET /a', status: '2xx' }), 2)
    assert.equal(shown.value(`${duration}_count`, { route: 'GET /a', status: '4xx' }), 1)
    assert.equal(shown.value(`${duration}_sum`, { route: 'POST /a', status: 'aborted' }), 7)
    assert.equal(shown.value(`${duration}_count`, { route: 'POST /a', status: '2xx' }), undefined)
    assert.equal(shown.value('test_http_request_body_bytes_sum', { route: 'POST /a' }), 5000)
    assert.equal(shown.value('test_http_request_body_bytes_count', { route: 'GET /a' }), undefined)
    assert.equal(shown.value('test_http_response_body_bytes_count', { route: 'GET /a' }), 2)
  })
})

describe('metrics of the process', () => {
  it('say what it takes of the machine, and how late timers of main are', () => {
    let nowMs = 0
    let tick = (): void => {}
    const clock = {
      nowMs: () => nowMs,
      wallMs: () => Date.now(),
      every: (_intervalMs: number, task: () => void) => {
        tick = task
        return () => {}
      },
    }
    const metrics = new Metrics()
    new ProcessMetrics({ version: '1.2.3', clock }).register(metrics)
    nowMs = 20
    tick()
    nowMs = 340 // 300 ms late
    tick()
    const shown = new Exposition(metrics.text())
    assert.equal(shown.value('trilog_build_info', { version: '1.2.3', node: process.versions.node }), 1)
    assert.equal(shown.value('trilog_event_loop_delay_seconds_bucket', { le: '0.001' }), 1)
    assert.equal(shown.value('trilog_event_loop_delay_seconds_sum'), 0.3)
    assert(shown.value('process_cpu_seconds_total')! > 0)
    assert(shown.value('process_resident_memory_bytes')! > 1e7)
    assert(shown.value('process_open_fds')! > 2)
    assert(shown.value('process_max_fds')! >= shown.value('process_open_fds')!)
    assert(shown.value('process_start_time_seconds')! > 1.6e9)
  })
})
