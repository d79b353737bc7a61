import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NoteAhead } from '../../../src/logstore/reads/note-ahead.ts'
import { refusal } from '../../../src/logstore/refusals.ts'
import type { Refusal } from '../../../src/logstore/refusals.ts'
import { NOTHING } from '../../../src/logstore/walk/tasks.ts'
import type { WalkBody } from '../../../src/logstore/walk/tasks.ts'
import { turn } from '../../support/turn.ts'

/** A clock and steps that the test moves by hand. */
function world() {
  const its = {
    nowMs: 0,
    look: null as (() => void) | null,
    steps: 0,
    answer: { ...NOTHING, isAtEnd: true } as WalkBody | Refusal,
  }
  const clock = {
    nowMs: () => its.nowMs,
    every: (_ms: number, run: () => void) => {
      its.look = run
      return () => void (its.look = null)
    },
  }
  const notes = new NoteAhead(clock, async () => {
    its.steps++
    return its.answer
  })
  const look = async (): Promise<number> => {
    its.look?.()
    await turn()
    return its.steps
  }
  return { its, notes, look }
}

describe('what comes is noted for searches', () => {
  it('from the first search on, until none came for a while', async () => {
    const { its, notes, look } = world()
    assert.equal(await look(), 0)
    notes.searched()
    assert.equal(await look(), 1)
    its.nowMs = 59_000
    assert.equal(await look(), 2)
    notes.searched()
    its.nowMs = 119_000
    assert.equal(await look(), 3)
    its.nowMs = 119_001
    assert.equal(await look(), 3)
    assert.equal(its.look, null, 'nothing ticks any more')
    notes.searched()
    assert.equal(await look(), 4)
  })

  it('step by step until all is noted, and after a refusal with the next look', async () => {
    const { its, notes, look } = world()
    notes.searched()
    its.answer = { ...NOTHING, isAtEnd: false }
    its.look!()
    await Promise.resolve()
    assert(its.steps >= 1)
    its.answer = refusal('concurrency_exceeded', 'busy')
    await turn()
    const before = its.steps
    its.answer = { ...NOTHING, isAtEnd: true }
    assert.equal(await look(), before + 1)
  })

  it('closes when the step under way has ended', async () => {
    const { its, notes } = world()
    notes.searched()
    its.answer = { ...NOTHING, isAtEnd: false }
    its.look!()
    await notes.close()
    const { steps } = its
    notes.searched()
    assert.deepEqual([its.look, its.steps], [null, steps])
  })
})
