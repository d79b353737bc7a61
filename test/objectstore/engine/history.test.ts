import { test } from 'node:test'
import fc from 'fast-check'
import { assertLives } from '../../support/random-history.ts'
import { History, STEP_KINDS } from './history.ts'

test('whatever is put, lost, moved or broken in whatever order, the object store is what its log says and gives back what was sent', () =>
  assertLives(STEP_KINDS, fc.constant(null), async (seed) => {
    const history = new History(seed)
    await history.begin()
    return history
  }))
