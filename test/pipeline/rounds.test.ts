import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Rounds } from '../../src/pipeline/rounds.ts'
import { nextTurn } from '../support/next-turn.ts'

describe('rounds', () => {
  it('come one after the other, and none begins while one is under way (R1)', async () => {
    const ends: (() => void)[] = []
    const rounds = new Rounds(() => new Promise((resolve) => ends.push(resolve)))
    const first = rounds.run()
    await rounds.run()
    assert.equal(ends.length, 1)
    ends[0]!()
    await first
    void rounds.run()
    assert.equal(ends.length, 2)
  })

  it('are over when they are closed: the one under way is told and waited for, no other begins (R2)', async () => {
    const seen: string[] = []
    const { promise: step, resolve: endStep } = Promise.withResolvers<void>()
    const rounds = new Rounds(async (signal) => {
      seen.push('begun')
      await step
      seen.push(signal.aborted ? 'told' : 'not told')
    })
    void rounds.run()
    const closed = rounds.close().then(() => seen.push('closed'))
    await nextTurn()
    assert.deepEqual(seen, ['begun'])
    endStep()
    await closed
    await rounds.run()
    assert.deepEqual(seen, ['begun', 'told', 'closed'])
  })
})
