/** Work whose length a client decides leaves turns of the event loop to others. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { localAuthenticator } from '../../../src/objectstore/s3/auth/authenticator.ts'
import type { Sliced } from '../../../src/objectstore/s3/slices.ts'
import { Pace, STEPS_PER_TURN } from '../../../src/objectstore/s3/pace.ts'
import { TestGateway, assertRefused, textsOf } from './support.ts'
import { nextTurn } from '../../support/next-turn.ts'

/** Turns of the event loop, which the test grants. */
class Turns {
  readonly waiting: (() => void)[] = []
  readonly nextTurn = (run: () => void): void => void this.waiting.push(run)

  /** @returns whether anything waited */
  async next(): Promise<boolean> {
    const waiting = this.waiting.splice(0)
    for (const run of waiting) run()
    await nextTurn() // until promises are settled
    return waiting.length > 0
  }
}

/** Work of `slices` slices of `steps` steps. Calls `took` with the steps of each slice. */
function* work(slices: number, steps: number, took: (steps: number) => void): Sliced<string> {
  for (let i = 0; i < slices; i++) {
    took(steps)
    yield steps
  }
  return 'done'
}

describe('the pace of requests', () => {
  it('lets short work go on at once', async () => {
    const turns = new Turns()
    assert.equal(await new Pace(turns.nextTurn).run(work(3, 10, () => {})), 'done')
    assert.equal(turns.waiting.length, 0)
  })

  it('gives all work together so many steps in a turn, and ends it', async () => {
    const turns = new Turns()
    const pace = new Pace(turns.nextTurn)
    let steps = 0
    let done = 0
    const slice = STEPS_PER_TURN / 4
    for (let i = 0; i < 50; i++) {
      const run = pace.run(work(10, slice, (took) => void (steps += took)))
      void run.then(() => done++)
    }
    let before = 0
    do {
      assert.ok(steps - before <= STEPS_PER_TURN, `${steps - before} in one turn`)
      before = steps
    } while (await turns.next())
    assert.equal(done, 50)
    assert.equal(steps, 50 * 10 * slice)
  })
})

/** Number of turns of the event loop during `run`. */
async function turnsDuring(run: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let isRunning = true
  const count = (): void => {
    turns++
    if (isRunning) setImmediate(count)
  }
  setImmediate(count)
  await run()
  isRunning = false
  return turns
}

async function withPolicy(Statement: object, run: (gateway: TestGateway) => Promise<void>): Promise<void> {
  const gateway = await TestGateway.start({ authenticator: localAuthenticator })
  try {
    await gateway.ask('PUT', '/bkt')
    const put = await gateway.ask('PUT', '/bkt?policy', { body: JSON.stringify({ Statement }) })
    assert.equal(put.status, 204, put.text)
    await run(gateway)
  } finally {
    await gateway.stop()
  }
}

describe('a policy that takes long', () => {
  it('of 40 wildcards is asked for 1000 keys while others are served', { timeout: 60_000 }, async () => {
    const Resource = Array.from({ length: 40 }, (_, i) => `arn:aws:s3:::bkt/*${'?'.repeat(430 + i)}iz*`) // all different, as equal patterns count once
    const statement = { Effect: 'Deny', Principal: '*', Action: 's3:DeleteObject', Resource }
    await withPolicy(statement, async (gateway) => {
      const keys = Array.from({ length: 1000 }, (_, i) => 'i'.repeat(899) + String(i).padStart(4, '0'))
      const denied = `${'x'.repeat(500)}iz`
      const body = `<Delete>${[...keys.slice(1), denied].map((key) => `<Object><Key>${key}</Key></Object>`).join('')}</Delete>`
      const headers = { 'content-md5': createHash('md5').update(body).digest('base64') }
      const turns = await turnsDuring(async () => {
        const reply = await gateway.ask('POST', '/bkt?delete', { body, headers })
        assert.equal(reply.status, 200, reply.text)
        assert.equal(textsOf(reply.text, 'Key').length, 1000)
        assert.deepEqual(textsOf(reply.text, 'Code'), ['AccessDenied'])
      })
      const steps = 40 * 900 * 999 // at least one for each character of each key
      assert.ok(turns > steps / STEPS_PER_TURN, `${turns} turns`)
    })
  })

  it('compares a long header with long patterns in slices', { timeout: 60_000 }, async () => {
    const like = Array.from({ length: 8 }, (_, i) => `*${'a?'.repeat(1000)}${i}*`)
    const Condition = { StringLike: { 'aws:UserAgent': like } }
    const statement = {
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::bkt/*',
      Condition,
    }
    await withPolicy(statement, async (gateway) => {
      const agent = 'a'.repeat(30_000)
      const turns = await turnsDuring(async () => {
        assertRefused(await gateway.ask('GET', '/bkt/key', { headers: { 'user-agent': agent } }), 404, 'NoSuchKey')
      })
      assert.ok(turns > (8 * 28_000 * (2000 / 32)) / STEPS_PER_TURN, `${turns} turns`)
      assertRefused(
        await gateway.ask('GET', '/bkt/key', { headers: { 'user-agent': `${agent}7` } }),
        403,
        'AccessDenied',
      )
    })
  })

  it('is asked about no more of a key than a key can have', async () => {
    const statement = {
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:DeleteObject',
      Resource: `arn:aws:s3:::bkt/${'a'.repeat(1024)}`,
    }
    await withPolicy(statement, async (gateway) => {
      const codes = async (key: string): Promise<readonly string[]> => {
        const body = `<Delete><Object><Key>${key}</Key></Object></Delete>`
        const headers = { 'content-md5': createHash('md5').update(body).digest('base64') }
        return textsOf((await gateway.ask('POST', '/bkt?delete', { body, headers })).text, 'Code')
      }
      assert.deepEqual(await codes('b'.repeat(1_000_000)), ['KeyTooLongError'])
      assert.deepEqual(await codes('a'.repeat(1_000_000)), ['AccessDenied'])
    })
  })
})
