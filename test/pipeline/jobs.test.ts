import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { JobPool } from '../../src/pipeline/jobs.ts'
import type { TestJob } from './workers/job-task.ts'

const filename = new URL('workers/job-task.ts', import.meta.url)

async function withPool(
  options: { threads?: number; threadsAtStart?: number; queueMax?: number },
  test: (pool: JobPool<TestJob, string>, gate: Int32Array) => Promise<void>,
): Promise<void> {
  const pool = new JobPool<TestJob, string>({ name: 'test', filename, threads: 1, queueMax: 1, ...options })
  const gate = new Int32Array(new SharedArrayBuffer(8))
  try {
    await test(pool, gate)
  } finally {
    open(gate)
    await pool.close({ withinMs: 1000 })
  }
}

function open(gate: Int32Array): void {
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
}

describe('a job pool whose thread still loads', () => {
  interface Loading {
    readonly pool: JobPool<null, void>
    /** Word 0 tells how far the thread is: see workers/slow-to-load.ts. */
    readonly words: Int32Array
    /** Lets the thread load, after earlier calls had time to take effect. */
    readonly go: () => Promise<void>
  }

  async function loading(): Promise<Loading> {
    const words = new Int32Array(new SharedArrayBuffer(8))
    const slow = new URL('workers/slow-to-load.ts', import.meta.url)
    const options = { name: 'test', filename: slow, threads: 1, queueMax: 1, workerData: words.buffer }
    const pool = new JobPool<null, void>(options)
    if (words[0] === 0) await Atomics.waitAsync(words, 0, 0).value
    const go = async (): Promise<void> => {
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
      Atomics.store(words, 1, 1)
      Atomics.notify(words, 1)
    }
    return { pool, words, go }
  }

  it('waits for it before it ends it, as Node would abort', async () => {
    const { pool, words, go } = await loading()
    const closed = pool.close({ withinMs: 0 })
    await go()
    await closed
    assert.equal(words[0], 2)
  })

  it('starts no other thread for a task that waits for it when it is closed', async () => {
    let threads = 0
    const count = (): void => void threads++
    process.on('worker', count)
    const { pool, go } = await loading()
    const refused = assert.rejects(pool.run(null), { kind: 'unavailable' })
    const closed = pool.close({ withinMs: 0 })
    const closedAgain = pool.close({ withinMs: 0 })
    await go()
    await Promise.all([refused, closed, closedAgain])
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
    process.removeListener('worker', count)
    assert.equal(threads, 1)
  })

  it('does not end it with a task that is given up', async () => {
    const { pool, words, go } = await loading()
    const task = pool.run(null, { timeoutMs: 1 })
    await assert.rejects(task, { kind: 'unavailable', code: 'job_timed_out' })
    const caller = new AbortController()
    const given = pool.run(null, { signal: caller.signal })
    caller.abort(new Error('gone'))
    await assert.rejects(given, /gone/)
    await go()
    await pool.run(null)
    assert.equal(words[0], 2)
    await pool.close({ withinMs: 1000 })
  })
})

describe('a job pool', () => {
  it('runs a task and returns its result', () =>
    withPool({}, async (pool) => assert.equal(await pool.run({ how: 'return' }), 'done')))

  it('refuses as overloaded what is more than its threads and its queue hold, and goes on afterwards', () =>
    withPool({}, async (pool, gate) => {
      const held = [pool.run({ how: 'wait', gate }), pool.run({ how: 'wait', gate })]
      assert.equal(pool.tasks, 2)
      await assert.rejects(pool.run({ how: 'return' }), { kind: 'overloaded', code: 'jobs_queue_full' })
      open(gate)
      assert.deepEqual(await Promise.all(held), ['done', 'done'])
      assert.equal(await pool.run({ how: 'return' }), 'done')
      assert.equal(pool.tasks, 0)
    }))

  for (const threadsAtStart of [0, 1, 2]) {
    it(`works on as many tasks at once as it has threads, of which ${threadsAtStart} began with it`, () =>
      withPool({ threads: 2, threadsAtStart }, async (pool, gate) => {
        const held = [pool.run({ how: 'wait', gate }), pool.run({ how: 'wait', gate })]
        for (let begun = 0; begun < 2; begun = Atomics.load(gate, 1)) await Atomics.waitAsync(gate, 1, begun).value
        open(gate)
        assert.deepEqual(await Promise.all(held), ['done', 'done'])
      }))
  }

  it('has one task after the other on the same thread, and what goes aside on another one', async () => {
    const pool = new JobPool<TestJob & { readonly isAside?: boolean }, string>({
      name: 'test',
      filename,
      threads: 2,
      threadsAtStart: 2,
      queueMax: 1,
      wantsNewestThread: ({ isAside }) => isAside === true,
    })
    const gate = new Int32Array(new SharedArrayBuffer(8))
    const ask = (isAside = false): Promise<string> => pool.run({ how: 'tell thread', isAside })
    const aside = await ask(true)
    const usual = await ask()
    assert.notEqual(usual, aside)
    const held = pool.run({ how: 'wait', gate, isAside: true })
    assert.deepEqual([await ask(), await ask()], [usual, usual])
    assert.equal(await ask(true), usual, 'where else is busy')
    open(gate)
    await held
    assert.deepEqual([await ask(), await ask(true)], [usual, aside])
    await pool.close({ withinMs: 1000 })
  })

  it('gives tenants their turns, also when one of them has filled the queue', async () => {
    const pool = new JobPool<TestJob & { readonly tenant: string }, string>({
      name: 'test',
      filename,
      threads: 1,
      queueMax: 9,
      turns: { tenantOf: ({ tenant }) => tenant, nowMs: () => performance.now() },
    })
    const gate = new Int32Array(new SharedArrayBuffer(8))
    const ended: string[] = []
    const run = async (tenant: string, how: TestJob['how']): Promise<void> => {
      await pool.run({ how, gate, tenant })
      ended.push(tenant)
    }
    const all = [run('busy', 'wait'), ...Array.from({ length: 5 }, () => run('busy', 'return')), run('other', 'return')]
    const late = assert.rejects(pool.run({ how: 'return', tenant: 'third' }, { timeoutMs: 1 }), {
      code: 'job_timed_out',
    })
    await late // this job no longer waits, and takes no turn
    open(gate)
    await Promise.all(all)
    assert.deepEqual(ended.slice(0, 2), ['busy', 'other'])
    assert.equal(pool.tasks, 0)
    await pool.close({ withinMs: 1000 })
  })

  it('turns a task that throws into unavailable with the cause, and goes on', () =>
    withPool({}, async (pool) => {
      await assert.rejects(pool.run({ how: 'throw' }), {
        kind: 'unavailable',
        code: 'job_failed',
        message: 'test job failed: told to throw',
      })
      assert.equal(await pool.run({ how: 'return' }), 'done')
    }))

  it('rejects the task of a dying thread as unavailable, and the tasks behind it run on its successor', () =>
    withPool({ queueMax: 3 }, async (pool) => {
      const dying = pool.run({ how: 'exit' })
      const behind = [pool.run({ how: 'return' }), pool.run({ how: 'return' })]
      await assert.rejects(dying, { kind: 'unavailable', code: 'job_thread_died' })
      assert.deepEqual(await Promise.all(behind), ['done', 'done'])
    }))

  it('kills the thread of a task that runs longer than its time-out, and goes on', () =>
    withPool({}, async (pool) => {
      await assert.rejects(pool.run({ how: 'spin' }, { timeoutMs: 50 }), { kind: 'unavailable', code: 'job_timed_out' })
      assert.equal(await pool.run({ how: 'return' }), 'done')
    }))

  it('gives an aborted task the caller’s own reason, whether it waits or runs', () =>
    withPool({}, async (pool, gate) => {
      const controller = new AbortController()
      const reason = new Error('the client is gone')
      const running = pool.run({ how: 'spin', gate }, { signal: controller.signal })
      const waiting = pool.run({ how: 'return' }, { signal: controller.signal })
      controller.abort(reason)
      await assert.rejects(running, reason)
      await assert.rejects(waiting, reason)
      assert.equal(await pool.run({ how: 'return' }), 'done')
    }))

  it('that closes lets running tasks finish, kills those that do not, and takes no new ones', async () => {
    const patient = new JobPool<TestJob, string>({ name: 'test', filename, threads: 1, queueMax: 1 })
    const gate = new Int32Array(new SharedArrayBuffer(8))
    const held = patient.run({ how: 'wait', gate })
    const closed = patient.close({ withinMs: 4999.5 })
    open(gate)
    assert.equal(await held, 'done')
    await closed
    await assert.rejects(patient.run({ how: 'return' }), { kind: 'unavailable', code: 'jobs_closed' })

    const hurried = new JobPool<TestJob, string>({ name: 'test', filename, threads: 1, queueMax: 1 })
    const stuck = assert.rejects(hurried.run({ how: 'spin' }), { kind: 'unavailable' })
    await hurried.close({ withinMs: 10 })
    await stuck

    const unused = new JobPool<TestJob, string>({ name: 'test', filename, threads: 1, threadsAtStart: 0, queueMax: 1 })
    await unused.close({ withinMs: 10 })
    await assert.rejects(unused.run({ how: 'return' }), { kind: 'unavailable', code: 'jobs_closed' })
  })
})
