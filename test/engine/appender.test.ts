import { CONSUMER_WAITS } from '../../src/pipeline/spsc-ring.ts'
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Appender, FrameLost } from '../../src/engine/appender.ts'
import type { FrameToAppend, NotTaken } from '../../src/engine/appender.ts'
import type { Log } from '../../src/log/log.ts'
import { World, openWriter, replay } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

type AppendClass = Pick<FrameToAppend, 'durability' | 'purpose'>
const SYNC: AppendClass = { durability: 'sync', purpose: 'admit' }
const WRITE: AppendClass = { durability: 'append', purpose: 'admit' }

/** An appender on a log that the test steps, and everything that the appender reports, in order. */
class Heard {
  readonly world = new World({ seed: 1 })
  readonly heard: string[] = []
  readonly deferred: (() => void)[] = []
  /** Milliseconds by which each look at the clock moves it. */
  lookMs = 0
  #nowMs = 0
  log!: Log
  appender!: Appender
  /** Called with each report. */
  onNews: (news: string) => void = () => {}

  async open(options: { ringBytes?: number; segmentBytes?: number; replicas?: string[] } = {}): Promise<this> {
    this.log = await this.world.open({ ringBytes: 4096, ...options })
    this.appender = new Appender(this.log, {
      segmentEnding: (end) => this.#hear(`opening at ${end}`),
      onLost: () => this.#hear('lost'),
      defer: (run) => void this.deferred.push(run),
      nowMs: () => (this.#nowMs += this.lookMs),
    })
    return this
  }

  runDeferred(): void {
    for (const run of this.deferred.splice(0)) run()
  }

  /** @returns why the frame was not taken; null: taken */
  append(name: string, options = SYNC, payloadBytes = 8): NotTaken | null {
    const encode = (target: Buffer, at: number): void => void target.fill(name.charCodeAt(0), at, at + payloadBytes)
    const notTaken = this.appender.append(
      { type: 1, payloadBytes, ...options, encode },
      { settled: (stored) => this.#hear(`${name} ${stored ? 'stored' : 'rejected'}`) },
    )
    return notTaken?.reason ?? null
  }

  settled(name: string): Promise<void> {
    return this.appender.settled().then(
      () => this.#hear(`${name} settled`),
      (error: unknown) => {
        assert.ok(error instanceof FrameLost)
        this.#hear(`${name} failed`)
      },
    )
  }

  async die(): Promise<void> {
    this.world.lanes[0]!.die()
    await nextTurn()
  }

  #hear(news: string): void {
    this.heard.push(news)
    this.onNews(news)
  }
}

describe('the appender', () => {
  it('wakes the journal once for the frames of a turn, and before its end when they are many bytes (A4)', async () => {
    const opened = await new Heard().open({ ringBytes: 1 << 20, segmentBytes: 1 << 20 })
    const control = new Int32Array(opened.log.writer.rings[0]!, 0, 64)
    const sleep = (): void => void Atomics.store(control, CONSUMER_WAITS, 1)
    const isAsleep = (): boolean => Atomics.load(control, CONSUMER_WAITS) === 1
    sleep()
    for (const [name, options] of [
      ['a', SYNC],
      ['b', WRITE],
      ['c', { durability: 'volatile', purpose: 'admit' }],
    ] as const) {
      opened.append(name, options)
    }
    assert.ok(isAsleep())
    assert.equal(opened.deferred.length, 1)
    opened.deferred.shift()!()
    assert.ok(!isAsleep())
    opened.world.step()
    assert.equal(opened.log.counters().groups, 1)
    assert.deepEqual(opened.heard.slice(-3), ['a stored', 'b stored', 'c stored'])

    sleep()
    const payloadBytes = 64 << 10
    for (const name of ['d', 'e', 'f']) opened.append(name, SYNC, payloadBytes)
    assert.ok(isAsleep())
    opened.append('g', SYNC, payloadBytes)
    assert.ok(!isAsleep())
    assert.equal(opened.deferred.length, 1)
  })

  it('says of each frame that it is stored when its class says so, in the order of the frames (A1, A2)', async () => {
    const opened = await new Heard().open()
    opened.append('a')
    opened.append('b', WRITE)
    opened.append('c')
    assert.deepEqual(opened.heard, ['opening at 0'])
    assert.equal(opened.appender.inFlight, 3)
    opened.world.step()
    assert.deepEqual(opened.heard, ['opening at 0', 'a stored', 'b stored', 'c stored'])
    assert.equal(opened.appender.inFlight, 0)
  })

  it('does not wait for a sync with what is only to be written', async () => {
    const opened = await new Heard().open()
    let syncs = 0
    opened.world.step()
    opened.world.files.faults = { sync: (path) => (path.endsWith('.log') && (syncs += 1) > 1 ? 'EIO' : null) }
    opened.append('a', WRITE)
    opened.world.step()
    assert.deepEqual(opened.heard, ['opening at 0', 'a stored'])
    assert.ok(opened.log.written > opened.log.committed)
  })

  it('has everything before a moment settled, and nothing after it', async () => {
    const opened = await new Heard().open()
    await opened.settled('nothing')
    opened.append('a')
    const first = opened.settled('first')
    opened.append('b')
    await nextTurn()
    assert.deepEqual(opened.heard, ['nothing settled', 'opening at 0'])
    opened.world.step()
    await first
    assert.deepEqual(opened.heard.slice(2), ['a stored', 'b stored', 'first settled'])
  })

  describe('with more waiters than a turn may tell (A5)', () => {
    const MANY = 200
    const names = Array.from({ length: MANY }, (_, i) => `${i}`)

    async function stored(): Promise<Heard> {
      const opened = await new Heard().open({ ringBytes: 1 << 16, segmentBytes: 1 << 16 })
      opened.lookMs = 4
      for (const name of names) opened.append(name)
      opened.runDeferred()
      opened.world.step()
      assert.ok(opened.heard.length > 1 && opened.heard.length < MANY / 2)
      assert.equal(opened.deferred.length, 1)
      return opened
    }

    it('tells the others in later turns, in the order of the frames (A1)', async () => {
      const opened = await stored()
      const all = opened.settled('all')
      opened.append('late')
      opened.world.step()
      assert.ok(opened.heard.length < MANY / 2)
      for (let turns = 1; opened.deferred.length > 0; turns++) {
        assert.ok(turns < MANY)
        opened.runDeferred()
      }
      await all
      const told = [...names.map((name) => `${name} stored`), 'late stored', 'all settled']
      assert.deepEqual(opened.heard.slice(1), told)
    })

    it('tells all of them when the log fails, and then of the loss of what is behind them (A3)', async () => {
      const opened = await stored()
      const told = opened.heard.length
      opened.append('late')
      await opened.die()
      const left = names.slice(told - 1).map((name) => `${name} stored`)
      assert.deepEqual(opened.heard.slice(told), [...left, 'lost', 'late rejected'])
      opened.lookMs = 0
      opened.runDeferred()
      opened.append('again')
      opened.world.step()
      assert.equal(opened.heard.at(-1), 'again stored')
    })

    it('tells all of them before the log is closed', async () => {
      const opened = await stored()
      await opened.log.close()
      assert.equal(opened.heard.length, 1 + MANY)
    })
  })

  it('leaves the log read-only when nobody can find the state without what was lost (A3)', async () => {
    const opened = await new Heard().open()
    opened.append('a')
    opened.onNews = (news) => {
      if (news === 'lost') throw new Error('too many open files')
    }
    await opened.die()
    assert.equal(opened.heard.at(-1), 'a rejected')
    assert.equal(opened.log.state.kind, 'read-only')
    assert.match('message' in opened.log.state ? opened.log.state.message : '', /too many open files/)
    assert.equal(opened.append('b'), 'read-only')
    await opened.settled('the state')
    assert.equal(opened.heard.at(-1), 'the state failed')
  })

  it('says so before anybody hears of a frame when frames behind it are lost (A3)', async () => {
    const opened = await new Heard().open({ replicas: ['/replica'] })
    opened.append('a')
    opened.world.lanes[0]!.journal.runGroup() // written in only one of the two directories
    opened.append('b')
    const settled = opened.settled('all')
    opened.onNews = (news) => {
      if (news === 'a stored') opened.append('c')
    }
    opened.world.lanes[0]!.vanish() // its last message does not arrive
    await opened.die()
    await settled
    assert.deepEqual(opened.heard.slice(1), ['lost', 'a stored', 'b rejected', 'all failed'])
    for (const lane of opened.world.lanes) lane.step()
    assert.equal(opened.heard.at(-1), 'c stored')
    const { frames } = replay(opened.log, opened.world.files)
    assert.equal(frames.map(({ payload }) => payload.toString('latin1', 0, 1)).join(''), 'ac')
  })

  it('lets those build on the new state who hear of a loss, and of what was stored before it (A3)', async () => {
    const opened = await new Heard().open()
    opened.append('a')
    opened.world.step()
    opened.append('b')
    opened.append('c')
    opened.onNews = (news) => {
      if (news === 'lost') opened.append('d')
      if (news === 'b rejected') opened.append('e')
    }
    await opened.die()
    opened.onNews = () => {}
    opened.world.step()
    assert.deepEqual(opened.heard.slice(2), ['lost', 'b rejected', 'c rejected', 'd stored', 'e stored'])
    const { frames } = replay(opened.log, opened.world.files)
    assert.equal(frames.map(({ payload }) => payload.toString('latin1', 0, 1)).join(''), 'ade')
  })

  it('rejects what waits when the disk fails, and takes nothing from then on', async () => {
    const opened = await new Heard().open()
    opened.append('a')
    opened.world.step()
    opened.append('b')
    opened.world.files.faults = { sync: () => 'EIO' }
    opened.world.step()
    assert.deepEqual(opened.heard.slice(1), ['a stored', 'lost', 'b rejected'])
    assert.equal(opened.append('c'), 'read-only')
    await opened.settled('nothing')
  })

  it('says why a frame is not taken, and that nothing has changed', async () => {
    const opened = await new Heard().open()
    for (let frames = 0; frames < 2; frames += 1) opened.append('a', SYNC, 1900)
    assert.equal(opened.append('b', SYNC, 1900), 'full')
    assert.equal(opened.appender.inFlight, 2)
    opened.world.step()
    opened.append('c', SYNC, 1900)
    opened.world.step()
    assert.deepEqual(opened.heard, ['opening at 0', 'a stored', 'a stored', 'c stored'])
  })

  it('keeps what finishes something possible when the disk is too full for what is new', async () => {
    const opened = await new Heard().open()
    opened.append('a')
    opened.world.step()
    opened.world.files.capacityBytes += (1 << 20) + 4096 - opened.world.files.freeBytes('/')
    opened.world.nowMs += 1000
    opened.world.lanes[0]!.idle()
    assert.equal(opened.append('b'), 'no-space')
    opened.append('c', { durability: 'sync', purpose: 'finish' })
    opened.world.step()
    assert.equal(opened.heard.at(-1), 'c stored')
  })

  it('says where everything before ends when a frame opens a segment', async () => {
    const opened = await new Heard().open({ segmentBytes: 512 })
    const ends: number[] = []
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) {
      opened.append(name, SYNC, 100)
      ends.push(openWriter(opened.log).tail)
      opened.world.step()
    }
    const openings = opened.heard.filter((news) => news.startsWith('opening'))
    assert.ok(openings.length > 2)
    for (const { base } of opened.log.segments.slice(1)) {
      const end = ends.findLast((each) => each <= base)
      assert.ok(openings.includes(`opening at ${end}`))
    }
  })
})
