import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { Measurements } from '../../../bench/load/measurements.ts'
import { Progress } from '../../../bench/load/progress.ts'
import { toPoints } from '../../../bench/load/report/charts.ts'
import { renderReport } from '../../../bench/load/report/report.ts'
import { logScale, linearScale } from '../../../bench/load/report/svg.ts'
import { buildResult, formatSummary } from '../../../bench/load/result.ts'
import type { LoadResult } from '../../../bench/load/result.ts'

const COMPLETED = { units: 512, payloadBytes: 200_000, bodyBytes: 200_000, refused: [] }

/** @param text stands in every place where a server or a user can put text */
function measure(seconds: number, text = 'plain'): LoadResult {
  const measured = new Measurements(0, 0)
  for (let second = 1; second <= seconds; second++) {
    for (let request = 0; request < 10; request++) measured.completed(COMPLETED, 1 + request)
    measured.failed(`429 ${text}`)
    measured.closeSecond(second * 1000)
  }
  const rate = { bytesPerSecond: 3e6, bytes: 3e6, seconds: 1 }
  return buildResult(
    { measured, elapsedSeconds: seconds, cpuShare: 0.25, missed: 0 },
    {
      service: 'logstore',
      unit: 'records',
      task: 'requests',
      startedAt: '2026-11-20T10:00:00.000Z',
      loop: 'open',
      disk: { directory: text, before: rate, after: rate, bytesPerSecond: 3e6, problem: null },
      verification: { ok: true, checks: [{ name: text, ok: true, detail: text }] },
      configuration: [['dataset', text]],
      machine: [['CPU', text]],
    },
  )
}

describe('the report', () => {
  it('holds no script and refers to nothing outside itself', () => {
    const page = renderReport(measure(30))
    assert.doesNotMatch(page, /<script|<link|<img|<iframe|\bsrc=|href=|url\(|@import|https?:/i)
    for (const heading of ['Throughput over time', 'Latency over time', 'Latency distribution', 'Errors over time']) {
      assert(page.includes(heading), heading)
    }
    assert.equal(page.match(/<svg /g)?.length, 4)
    assert.doesNotMatch(page, /NaN|Infinity|undefined/)
  })

  it('escapes every text it did not write itself', () => {
    const page = renderReport(measure(3, `</td><script>alert("1")</script>&'`))
    assert.doesNotMatch(page, /<script|<\/td><\/td>|alert\("/)
    assert.equal(page.split('&lt;script&gt;').length, 7) // error, directory, check twice, configuration, machine
  })

  it('is drawn also when nothing was acknowledged, or the run was over at once', () => {
    for (const seconds of [0, 1]) {
      const page = renderReport(measure(seconds))
      assert.doesNotMatch(page, /NaN|Infinity|undefined/)
    }
    assert.match(renderReport(measure(0)), /nothing was acknowledged/)
  })

  it('draws at most 240 points however long the run, and loses no record and no error doing so', () => {
    const second = fc.record({
      units: fc.nat(1e6),
      errors: fc.nat(100),
      maxMs: fc.double({ min: 1, max: 1e4, noNaN: true }),
    })
    fc.assert(
      fc.property(
        fc.array(second, { maxLength: 600 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        (drawn, rest) => {
          const rows = drawn.map(({ units, errors, maxMs }, index) => {
            const spanSeconds = index === drawn.length - 1 ? rest : 1
            const atSeconds = index + spanSeconds
            return { atSeconds, spanSeconds, tasks: 1, units, payloadBytes: 0, errors, p50Ms: 1, p99Ms: 1, maxMs }
          })
          const points = toPoints(rows)
          assert(points.length <= 240)
          const span = (point: (typeof points)[number]): number => point.atSeconds - point.fromSeconds
          const near = (actual: number, expected: number): void => assert(Math.abs(actual - expected) < 1e-3)
          near(
            points.reduce((sum, point) => sum + point.unitsPerSecond * span(point), 0),
            rows.reduce((sum, row) => sum + row.units, 0),
          )
          near(
            points.reduce((sum, point) => sum + point.errorsPerSecond * span(point), 0),
            rows.reduce((sum, row) => sum + row.errors, 0),
          )
          assert.equal(Math.max(0, ...points.map((point) => point.maxMs)), Math.max(0, ...rows.map((row) => row.maxMs)))
        },
      ),
      { numRuns: 50 },
    )
  })
})

describe('a scale', () => {
  it('has two to a dozen ticks, all of them inside', () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-3, max: 1e9, noNaN: true }), (max) => {
        const { ticks, at } = linearScale(max, 0, 100, true)
        assert(ticks.length >= 2 && ticks.length <= 12)
        assert(ticks.every((tick) => at(tick) >= 0 && at(tick) <= 100 + 1e-6))
        assert(at(max) <= 100 + 1e-6)
      }),
    )
    fc.assert(
      fc.property(fc.integer({ min: -3, max: 3 }), fc.double({ min: 0.4, max: 6, noNaN: true }), (low, decades) => {
        const min = 10 ** low
        const { ticks, at } = logScale(min, min * 10 ** decades, 0, 100)
        assert(ticks.length >= 1 && ticks.length <= 12)
        assert(ticks.every((tick) => at(tick) >= -1e-6 && at(tick) <= 100 + 1e-6))
      }),
    )
  })
})

describe('the summary', () => {
  it('names throughput, latency, disk ratio and every kind of error', () => {
    const summary = formatSummary(measure(10))
    assert.match(summary, /throughput +5 120 records\/s, 2\.0 MB\/s/)
    assert.match(summary, /latency +p50 \d.* p99\.9 10\.0 ms {2}max 10\.0 ms/)
    assert.match(summary, /payload \/ disk +67 %/)
    assert.match(summary, /\n {2}429 plain +10\n/)
  })
})

describe('the warm-up', () => {
  it('is counted, but in no percentile; its seconds show what it was', () => {
    const measured = new Measurements(500, 1500)
    for (const [endMs, latencyMs] of [
      [1500, 100],
      [2500, 50], // begins in the warm-up
      [3500, 2],
      [4500, 3],
    ] as const) {
      measured.started(latencyMs / 2)
      measured.completed(COMPLETED, latencyMs)
      measured.closeSecond(endMs)
    }
    assert.deepEqual([measured.tasks, measured.latency.count, measured.startDelay.count], [4, 2, 2])
    assert.deepEqual([measured.latency.maxMs, measured.startDelay.maxMs], [3, 1.5])
    assert.deepEqual(
      measured.seconds.map(({ maxMs }) => maxMs),
      [100, 50, 2, 3],
    )
  })
})

describe('the progress line', () => {
  function progressOf(isTerminal: boolean, seconds: number): string {
    let written = ''
    const measured = new Measurements(0, 0)
    const progress = new Progress({ isTerminal, columns: 60, write: (text) => (written += text) }, 'records')
    for (let second = 1; second <= seconds; second++) {
      measured.completed({ ...COMPLETED, payloadBytes: 1e6, bodyBytes: 1e6 }, 2)
      progress.second(measured.closeSecond(second * 1000), measured)
    }
    progress.done()
    return written
  }

  it('is rewritten every second on a terminal, within its width', () => {
    const lines = progressOf(true, 3).trimEnd().split('\r').slice(1)
    assert.equal(lines.length, 3)
    assert(lines.every((line) => line.length < 60 && line.includes('512 records/s')))
  })

  it('is printed every ten seconds elsewhere', () => {
    const lines = progressOf(false, 25).trimEnd().split('\n')
    assert.equal(lines.length, 2)
    assert.match(lines[1] ?? '', /^ +20 s {2}512 records\/s {2}1\.0 MB\/s {2}0 in flight {2}p50 2\.00 ms/)
  })
})
