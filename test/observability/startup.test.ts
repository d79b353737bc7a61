import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Startup } from '../../src/observability/startup.ts'
import { atOnce } from '../../src/steps.ts'
import type { Steps } from '../../src/steps.ts'

const TOTAL = 100

/** A start whose steps take `stepMs` each on the test's clock. */
function* work(clock: { ms: number }, stepMs: number): Steps<string> {
  for (let done = 1; done <= TOTAL; done++) {
    clock.ms += stepMs
    yield { phase: 'counting', done, total: TOTAL, unit: 'segments' }
  }
  return 'counted'
}

class Rig {
  readonly clock = { ms: 0 }
  readonly logged: object[] = []
  /** Steps done at each turn of the event loop. */
  readonly turns: number[] = []
  readonly startup: Startup = new Startup({
    nowMs: () => this.clock.ms,
    turn: async () => {
      const { phase } = this.startup
      this.turns.push(phase.kind === 'recovering' ? phase.step.done : -1)
    },
    logger: { info: (details) => void this.logged.push(details) },
  })
}

describe('a start', () => {
  it('gives the event loop a turn before its first step, and every 10 ms', async () => {
    const { clock, startup, turns } = new Rig()
    assert.equal(await startup.pace(work(clock, 4)), 'counted')
    assert.deepEqual(turns.slice(0, 4), [0, 3, 6, 9])
    assert.equal(turns.length, 1 + Math.floor(TOTAL / 3))
  })

  it('lets no step wait for another turn when each takes long', async () => {
    const { clock, startup, turns } = new Rig()
    await startup.pace(work(clock, 1000))
    assert.equal(turns.length, TOTAL + 1)
  })

  it('is a problem until it is over', () => {
    const { startup } = new Rig()
    startup.at({ phase: 'counting', done: 1, total: 2, unit: 'bytes' })
    assert.equal(startup.problem, 'recovering: counting')
    startup.opened()
    assert.equal(startup.problem, null)
    assert.deepEqual(startup.phase, { kind: 'open' })
  })

  it('is logged every five seconds when it takes long', async () => {
    const { clock, startup, logged } = new Rig()
    await startup.pace(work(clock, 100)) // 10 s in all
    assert.deepEqual(logged, [
      { phase: 'counting', done: 50, total: TOTAL, unit: 'segments' },
      { phase: 'counting', done: 100, total: TOTAL, unit: 'segments' },
    ])
  })

  it('that is told to drain stays so', () => {
    const { startup } = new Rig()
    startup.drain()
    startup.opened()
    startup.at({ phase: 'counting', done: 1, total: 2, unit: 'bytes' })
    assert.deepEqual(startup.phase, { kind: 'draining' })
  })
})

describe('steps', () => {
  it('run at once give the same', () => {
    assert.equal(atOnce(work({ ms: 0 }, 1)), 'counted')
  })
})
