import { test } from 'node:test'
import fc from 'fast-check'
import { assertLives } from '../../support/random-history.ts'
import { History, STEP_KINDS } from './history.ts'
import { CONFIGS } from './record-steps.ts'

test('whatever is asked, lost, delayed or broken in whatever order, the broker is what its log says and says so', () =>
  assertLives(STEP_KINDS, fc.nat(CONFIGS.length - 1), async (seed, config) => {
    const history = new History(seed)
    await history.begin(config)
    return history
  }))
