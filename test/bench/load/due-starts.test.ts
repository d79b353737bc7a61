import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { DueStarts } from '../../../bench/load/due-starts.ts'

describe('waiting until a task is due', () => {
  let nowMs: number
  let starts: DueStarts
  let started: string[]

  const wait = (name: string, dueMs: number): Promise<number> => starts.at(dueMs).then(() => started.push(name))
  /** Lets time pass, and the tasks that were woken start. */
  const pass = async (ms: number): Promise<void> => {
    nowMs += ms
    mock.timers.tick(ms)
    await Promise.resolve()
  }

  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] })
    nowMs = 100
    starts = new DueStarts(() => nowMs)
    started = []
  })
  afterEach(() => mock.timers.reset())

  it('starts in the order of the times, none before its own', async () => {
    void wait('first', 103)
    void wait('second', 105)
    void wait('third', 105)
    await pass(2)
    assert.deepEqual(started, [])
    await pass(1)
    assert.deepEqual(started, ['first'])
    await pass(2)
    assert.deepEqual(started, ['first', 'second', 'third'])
    void wait('fourth', 110)
    await pass(5)
    assert.deepEqual(started, ['first', 'second', 'third', 'fourth'])
  })

  it('starts what is already due at once', async () => {
    await wait('late', 99)
    assert.deepEqual(started, ['late'])
  })

  it('starts what is due when somebody looks, and the rest when its time comes', async () => {
    void wait('first', 103)
    void wait('second', 104)
    nowMs = 103
    starts.look()
    await Promise.resolve()
    assert.deepEqual(started, ['first'])
    await pass(4)
    assert.deepEqual(started, ['first', 'second'])
  })

  it('waits again when a timer comes too early', async () => {
    void wait('first', 103)
    mock.timers.tick(3)
    await Promise.resolve()
    assert.deepEqual(started, [])
    nowMs = 103
    mock.timers.tick(3)
    await Promise.resolve()
    assert.deepEqual(started, ['first'])
  })

  it('lets go of everybody when the run ends', async () => {
    void wait('first', 1000)
    starts.end()
    await wait('second', 2000)
    assert.deepEqual(started, ['first', 'second'])
  })
})
