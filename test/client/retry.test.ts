import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { HttpBrokerError, SdkError } from '../../src/client/index.ts'
import { withRetry } from '../../src/client/retry.ts'
import type { RetryPolicy } from '../../src/client/retry.ts'

const NEVER = new AbortController().signal
const refused = ({ retryable = true, retryAfterSeconds = null as number | null } = {}): HttpBrokerError =>
  new HttpBrokerError({ status: 503, code: 'c', message: 'm', action: 'a', retryable, retryAfterSeconds })

/** Fails with the given errors, then succeeds; records the pauses. */
class Attempts {
  readonly pausesMs: number[] = []
  made = 0
  readonly #failures: readonly Error[]
  readonly #random: number

  constructor(failures: readonly Error[], random = 0.5) {
    this.#failures = failures
    this.#random = random
  }

  run(policy: RetryPolicy, stop = NEVER): Promise<string> {
    const attempt = async (): Promise<string> => {
      const failure = this.#failures[this.made++]
      if (failure) throw failure
      return 'done'
    }
    const pause = async (delayMs: number): Promise<void> => void this.pausesMs.push(delayMs)
    return withRetry(attempt, policy, { pause, random: () => this.#random }, stop)
  }
}

const POLICY: RetryPolicy = { attemptsMax: 4, delayMs: 100, delayMsMax: 300 }

describe('trying again', () => {
  it('waits for a random part of a bound that doubles up to its greatest (T2)', async () => {
    const attempts = new Attempts([refused(), refused(), refused()])
    assert.equal(await attempts.run(POLICY), 'done')
    assert.deepEqual(attempts.pausesMs, [50, 100, 150])
  })

  it('waits at least as long as the broker says (T2)', async () => {
    const attempts = new Attempts([refused({ retryAfterSeconds: 2 })])
    await attempts.run(POLICY)
    assert.deepEqual(attempts.pausesMs, [2050])
  })

  it('does not try again what cannot succeed later, or is no error of the client (T1)', async () => {
    for (const error of [
      refused({ retryable: false }),
      new SdkError('Transport', 'broker_closed', 'm'),
      new Error('bug'),
    ]) {
      const attempts = new Attempts([error])
      await assert.rejects(attempts.run(POLICY), error)
      assert.deepEqual([attempts.made, attempts.pausesMs], [1, []])
    }
  })

  it('gives up when it is told to stop', async () => {
    const error = refused()
    const attempts = new Attempts([error])
    await assert.rejects(attempts.run(POLICY, AbortSignal.abort()), error)
    assert.equal(attempts.made, 1)
  })

  it('takes no policy that is none', async () => {
    for (const policy of [null, 5, 'x', []]) {
      const attempts = new Attempts([])
      await assert.rejects(attempts.run(policy as never), { code: 'InvalidConfig', message: /^the retry policy / })
      assert.equal(attempts.made, 0)
    }
  })

  it('takes no policy without an attempt, or with a wait that is none', async () => {
    for (const policy of [
      { attemptsMax: 0 },
      { attemptsMax: 1.5 },
      { delayMs: -1 },
      { delayMs: NaN },
      { delayMsMax: Infinity },
    ]) {
      const attempts = new Attempts([])
      await assert.rejects(attempts.run({ ...POLICY, ...policy }), { code: 'InvalidConfig' })
      assert.equal(attempts.made, 0)
    }
  })
})

test('whatever fails how often, there are at most as many attempts as allowed, and each wait is within its bound', async () => {
  const policies = fc.record({
    attemptsMax: fc.integer({ min: 1, max: 8 }),
    delayMs: fc.integer({ min: 0, max: 1000 }),
    delayMsMax: fc.integer({ min: 0, max: 5000 }),
  })
  const seconds = fc.array(fc.option(fc.integer({ min: 1, max: 30 })), { maxLength: 10 })
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  await fc.assert(
    fc.asyncProperty(policies, seconds, random, async (policy, retryAfter, random) => {
      const failures = retryAfter.map((retryAfterSeconds) => refused({ retryAfterSeconds }))
      const attempts = new Attempts(failures, random)
      const succeeds = failures.length < policy.attemptsMax
      const run = attempts.run(policy)
      if (succeeds) assert.equal(await run, 'done')
      else await assert.rejects(run, failures[policy.attemptsMax - 1])
      assert.equal(attempts.made, Math.min(failures.length + 1, policy.attemptsMax))
      assert.equal(attempts.pausesMs.length, attempts.made - 1)
      for (const [i, pauseMs] of attempts.pausesMs.entries()) {
        const askedMs = (retryAfter[i] ?? 0) * 1000
        assert.ok(pauseMs >= askedMs && pauseMs <= askedMs + Math.min(policy.delayMsMax, policy.delayMs * 2 ** i))
      }
    }),
  )
})
