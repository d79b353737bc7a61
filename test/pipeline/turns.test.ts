import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Turns } from '../../src/pipeline/turns.ts'
import type { Turn } from '../../src/pipeline/turns.ts'
import { nextTurn } from '../support/next-turn.ts'

/** Threads whose clock the test moves. */
class SharedThreads {
  nowMs = 0
  readonly turns: Turns
  /** Running jobs, in the order in which they began. */
  readonly running: { readonly tenant: string; readonly number: number; readonly turn: Turn }[] = []
  /** Tenants of the jobs, in the order in which these began. */
  readonly begun: string[] = []
  #joined = 0

  constructor(threads: number) {
    this.turns = new Turns(threads, () => this.nowMs)
  }

  join(tenant: string): Turn {
    const number = this.#joined
    this.#joined += 1
    const turn = this.turns.join(tenant)
    void this.#run(tenant, number, turn)
    return turn
  }

  async #run(tenant: string, number: number, turn: Turn): Promise<void> {
    await turn.ready
    this.running.push({ tenant, number, turn })
    this.begun.push(tenant)
  }

  /** Ends the running job that began first, after `afterMs` more. */
  async end(afterMs: number): Promise<void> {
    this.nowMs += afterMs
    this.running.shift()!.turn.leave()
    await nextTurn()
  }
}

describe('turns of tenants on threads', () => {
  it('let a job of another tenant wait for one job only, however many the first tenant has sent', async () => {
    const threads = new SharedThreads(1)
    for (let i = 0; i < 100; i++) threads.join('flood')
    threads.join('other')
    await nextTurn()
    await threads.end(1000)
    assert.deepEqual(threads.begun, ['flood', 'other'])
  })

  it('give every tenant a thread before one gets a second', async () => {
    const threads = new SharedThreads(2)
    for (let i = 0; i < 4; i++) threads.join('a')
    await nextTurn()
    assert.deepEqual(threads.begun, ['a', 'a'], 'nobody else wants one')
    for (let i = 0; i < 4; i++) threads.join('b')
    await threads.end(1)
    await threads.end(1)
    assert.deepEqual(threads.begun, ['a', 'a', 'b', 'a'], 'one each')
  })

  it('share the time of the threads, not the number of jobs', async () => {
    const threads = new SharedThreads(1)
    for (let i = 0; i < 40; i++) threads.join('slow')
    for (let i = 0; i < 400; i++) threads.join('fast')
    await nextTurn()
    for (let i = 0; i < 220; i++) await threads.end(threads.running[0]!.tenant === 'slow' ? 100 : 10)
    const slow = threads.begun.slice(0, 220).filter((tenant) => tenant === 'slow').length
    assert(slow >= 19 && slow <= 21, `${slow} slow ones beside 200 fast ones`)
  })

  it('neither wait for what others took before they came, nor make up for having been away', async () => {
    const threads = new SharedThreads(1)
    for (let i = 0; i < 20; i++) threads.join('first')
    await nextTurn()
    for (let i = 0; i < 10; i++) await threads.end(1000)
    for (let i = 0; i < 4; i++) threads.join('late')
    for (let i = 0; i < 6; i++) await threads.end(1000)
    assert.deepEqual(threads.begun.slice(11, 17), ['late', 'first', 'late', 'first', 'late', 'first'])
  })

  it('serve all that wait once, each tenant in its order, on all threads, whoever leaves meanwhile', () =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 3 }),
        fc.array(fc.record({ tenant: fc.constantFrom('a', 'b', 'c'), leaves: fc.boolean() }), { maxLength: 40 }),
        async (count, jobs) => {
          const threads = new SharedThreads(count)
          const expected: Record<string, number[]> = { a: [], b: [], c: [] }
          const seen: Record<string, number[]> = { a: [], b: [], c: [] }
          const turns = jobs.map(({ tenant }) => threads.join(tenant))
          for (const [number, { tenant, leaves }] of jobs.entries()) {
            const begins = number < count || !leaves // the first jobs get threads at once
            if (begins) expected[tenant]!.push(number)
            else if (!(await hasCome(turns[number]!))) turns[number]!.leave()
            else expected[tenant]!.push(number)
          }
          await nextTurn()
          while (threads.running.length > 0) {
            const { tenant, number } = threads.running[0]!
            seen[tenant]!.push(number)
            await threads.end(number % 7)
          }
          assert.deepEqual(seen, expected)
        },
      ),
      { numRuns: 50 },
    ))
})

const hasCome = (turn: Turn): Promise<boolean> =>
  Promise.race([turn.ready.then(() => true), nextTurn().then(() => false)])
