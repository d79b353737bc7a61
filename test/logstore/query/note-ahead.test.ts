import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NoteAhead } from '../../../src/logstore/query/note-ahead.ts'
import type { Noted } from '../../../src/logstore/query/note-ahead.ts'
import { nextTurn } from '../../support/next-turn.ts'

const MUCH = 50_000_000

/** A clock, a log and steps that the test moves by hand. */
function world() {
  const its = {
    nowMs: 0,
    log: { committed: 0, generation: 0 },
    look: null as (() => void) | null,
    steps: 0,
    answer: 'all' as Noted,
  }
  const clock = {
    nowMs: () => its.nowMs,
    every: (_everyMs: number, run: () => void) => {
      its.look = run
      return () => void (its.look = null)
    },
  }
  const notes = new NoteAhead(clock, its.log, async () => {
    its.steps++
    return its.answer
  })
  const look = async (came = 0): Promise<number> => {
    its.log.committed += came
    its.look?.()
    await nextTurn()
    return its.steps
  }
  return { its, notes, look }
}

describe('what comes is noted for searches', () => {
  it('whatever comes, from a search on until none came for a while', async () => {
    const { its, notes, look } = world()
    assert.equal(await look(MUCH), 0)
    notes.searched()
    await nextTurn()
    assert.equal(its.steps, 1, 'at once')
    assert.equal(await look(MUCH), 2)
    its.nowMs = 59_000
    assert.equal(await look(MUCH), 3)
    notes.searched()
    its.nowMs = 119_000
    assert.equal(await look(MUCH), 4)
    its.nowMs = 119_001
    assert.equal(await look(MUCH), 4)
    notes.searched()
    await nextTurn()
    assert.equal(its.steps, 5)
  })

  it('without searches unless much comes, and then once less comes', async () => {
    const { its, look } = world()
    assert.equal(await look(MUCH), 0)
    assert.equal(await look(1000), 1)
    assert.equal(await look(), 1, 'all is noted')
    assert.equal(await look(1000), 2)
    its.log.generation++
    assert.equal(await look(), 3)
    assert.equal(await look(MUCH), 3)
    assert.equal(await look(), 4)
  })

  it('step by step until all is noted, and after a refusal only when some time has passed', async () => {
    const { its, look } = world()
    its.answer = 'part'
    its.log.committed = 1000
    its.look!()
    await Promise.resolve()
    assert(its.steps >= 1)
    its.answer = 'nothing'
    await nextTurn()
    const before = its.steps
    its.answer = 'all'
    its.nowMs = 4999
    assert.equal(await look(), before)
    its.nowMs = 5000
    assert.equal(await look(), before + 1)
    assert.equal(await look(), before + 1)
  })

  it('closes when the step under way has ended', async () => {
    const { its, notes } = world()
    its.answer = 'part'
    its.log.committed = 1000
    its.look!()
    await notes.close()
    const { steps } = its
    notes.searched()
    assert.deepEqual([its.look, its.steps], [null, steps])
  })
})
