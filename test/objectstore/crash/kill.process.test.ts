import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { runObjectKillRounds } from '../../../scripts/soak/objectstore/kill.ts'
import { seedOf } from '../../support/seed.ts'

describe('an object store killed under load with kill -9, again and again', () => {
  it('starts each time, everything is as its answers said, and the space of what is garbage comes back', async (context) => {
    const seed = seedOf(context)
    const summary = await runObjectKillRounds({ seed, rounds: 3, liveMsMax: 800 })
    context.diagnostic(JSON.stringify(summary))
    assert(summary.kills >= 3)
    assert(summary.keys > 0 && summary.operations > 0)
    assert(summary.logBytes < summary.writtenBytes, 'segments of the log were dropped')
  })
})
