/**
 * The seed of long random histories: the same in every run, so that the tests say the same of the same tree.
 * `TRILOG_TEST_SEED=random` looks for something new; a number repeats what it found.
 */
import { randomInt } from 'node:crypto'
import type { TestContext } from 'node:test'

const SEED_DEFAULT = 20_261_121

export function testSeed(): number {
  const given = process.env['TRILOG_TEST_SEED']
  if (given === undefined) return SEED_DEFAULT
  return given === 'random' ? randomInt(2 ** 31) : Number(given)
}

/** The test report gets the seed, with which a run can be repeated. */
export function seedOf(context: TestContext): number {
  const seed = testSeed()
  context.diagnostic(`TRILOG_TEST_SEED=${seed} makes the same choices`)
  return seed
}

/** How often a random test of a whole engine runs. More runs look for something new. */
export const modelRuns = (byDefault: number): number => Number(process.env['TRILOG_MODEL_RUNS'] ?? byDefault)
