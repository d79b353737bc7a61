/** The object log on simulated files, with a journal that the test steps. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { StoredObject } from '../../src/endpoint-helper/frames.ts'
import { APPENDS_IN_FLIGHT_MAX } from '../../src/endpoint-helper/limits.ts'
import { ObjectLog } from '../../src/endpoint-helper/object-log.ts'
import { RecentObjects } from '../../src/endpoint-helper/recent-objects.ts'
import type { RecentLimits } from '../../src/endpoint-helper/recent-objects.ts'
import type { LogEnvironment } from '../../src/log/environment.ts'
import { World } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

const LIMITS = { activations: 4, bytes: 4000 }
/** Limits that make compactions frequent. In the smaller ring, a compaction takes more than one group. */
const TIGHT_LIMITS = { activations: 4, bytes: 2200 }
const TIGHT_RINGS = [2048, 1 << 16]

const SIZES = { segmentBytes: 2048, ringBytes: 1 << 16, compactLogBytesMin: 8192 }

interface RigOptions {
  readonly seed?: number
  readonly capacityBytes?: number
  readonly ringBytes?: number
  readonly limits?: RecentLimits
}

class Rig {
  readonly world: World
  log!: ObjectLog
  readonly incidents: string[] = []
  readonly logged: string[] = []

  readonly #ringBytes: number
  readonly #limits: RecentLimits
  /** Messages of the journal that the test holds back from the main thread; null: it holds back none. */
  #unheard: (() => void)[] | null = null

  static async start(options: RigOptions = {}): Promise<Rig> {
    const { ringBytes = SIZES.ringBytes, limits = LIMITS, seed = 1, ...capacity } = options
    const rig = new Rig(new World({ seed, ...capacity }), ringBytes, limits)
    await rig.open()
    return rig
  }

  private constructor(world: World, ringBytes: number, limits: RecentLimits) {
    this.world = world
    this.#ringBytes = ringBytes
    this.#limits = limits
  }

  async open(): Promise<void> {
    this.log = await ObjectLog.open({
      directory: '/data/endpoint',
      environment: this.#environment,
      limits: this.#limits,
      sizes: { ...SIZES, ringBytes: this.#ringBytes },
      logger: { info: () => {}, warn: () => {}, error: (_details, message) => void this.logged.push(message ?? '') },
      onIncident: ({ reason }) => void this.incidents.push(reason),
    })
  }

  async reopen(how: 'close' | 'kill' | 'crash'): Promise<void> {
    if (how === 'close') this.#hear()
    this.#unheard = null
    if (how === 'close') await this.log.close()
    else this.world.end(how)
    await this.open()
  }

  /** Steps the journal until the append is answered: null, or the code of the failure. */
  async store(activationId: string, n: number): Promise<string | null> {
    const answer = answerOf(this.log.append(object(activationId, n)))
    while (answer.code === undefined) await this.step()
    return answer.code
  }

  async step(): Promise<void> {
    this.#hear()
    this.world.step()
    await Promise.resolve()
    await Promise.resolve()
  }

  /** Steps the journal. The main thread hears of it with the next step. */
  stepWithoutNotice(): void {
    this.#unheard ??= []
    this.world.step()
  }

  #hear(): void {
    const unheard = this.#unheard ?? []
    this.#unheard = null
    for (const tell of unheard) tell()
  }

  get #environment(): LogEnvironment {
    const { environment } = this.world
    const startJournal: LogEnvironment['startJournal'] = (task, events) =>
      environment.startJournal(task, {
        onDeath: (error) => events.onDeath(error),
        onMessage: (message) =>
          this.#unheard ? this.#unheard.push(() => events.onMessage(message)) : events.onMessage(message),
      })
    return { ...environment, startJournal }
  }

  get segmentBytes(): number {
    const paths = this.world.files.paths().filter((path) => path.endsWith('/records.log'))
    return paths.reduce((sum, path) => sum + this.world.files.contentOf(path).byteLength, 0)
  }
}

const object = (activationId: string, n: number): StoredObject => ({ activationId, object: JSON.stringify({ n }) })

/** Code of a failure; null: stored; undefined: not answered yet. */
interface Answer {
  code: string | null | undefined
}

function answerOf(append: Promise<void>): Answer {
  const answer: Answer = { code: undefined }
  append.then(
    () => (answer.code = null),
    (error: { code: string }) => (answer.code = error.code),
  )
  return answer
}

describe('an object', () => {
  it('is answered, and read, when it is durable and not before', async () => {
    const rig = await Rig.start()
    const answer = answerOf(rig.log.append(object('a', 1)))
    await Promise.resolve()
    assert.equal(answer.code, undefined)
    assert.equal(rig.log.recent.newest('a'), null)
    await rig.step()
    assert.equal(answer.code, null)
    assert.equal(rig.log.recent.newest('a'), '{"n":1}')
  })

  for (const how of ['close', 'kill', 'crash'] as const) {
    it(`is there after a ${how}`, async () => {
      const rig = await Rig.start()
      for (let n = 0; n < 3; n++) assert.equal(await rig.store('a', n), null)
      await rig.reopen(how)
      assert.deepEqual(rig.log.recent.newestFirst('a'), ['{"n":2}', '{"n":1}', '{"n":0}'])
    })
  }

  it('that waits at a close is stored and answered', async () => {
    const rig = await Rig.start()
    const answer = answerOf(rig.log.append(object('a', 1)))
    await rig.reopen('close')
    assert.equal(answer.code, null)
    assert.equal(rig.log.recent.newest('a'), '{"n":1}')
  })

  it('keeps every character of its text', async () => {
    const rig = await Rig.start()
    const text = JSON.stringify({ url: 'http://ü/\u0000\u2028😀"\\' })
    const answer = answerOf(rig.log.append({ activationId: 'a', object: text }))
    await rig.step()
    assert.equal(answer.code, null)
    await rig.reopen('kill')
    assert.equal(rig.log.recent.newest('a'), text)
  })
})

describe('an object that cannot be stored', () => {
  it('is refused on a failing disk, and so is every later one, while what is stored can be read', async () => {
    const rig = await Rig.start()
    assert.equal(await rig.store('a', 1), null)
    rig.world.files.faults = { sync: () => 'EIO' }
    assert.equal(rig.log.problem, null)
    assert.equal(await rig.store('a', 2), 'wal_unavailable')
    rig.world.files.faults = {}
    assert.match(rig.log.problem!, /^read-only: .*EIO/)
    assert.deepEqual(rig.logged, ['the endpoint log is read-only'])
    assert.equal(await rig.store('a', 3), 'wal_unavailable')
    assert.equal(rig.log.recent.newest('a'), '{"n":1}')
  })

  it('is refused on a full disk', async () => {
    const rig = await Rig.start({ capacityBytes: 1024 * 1024 })
    assert.equal(await rig.store('a', 1), 'wal_unavailable')
  })

  it('is refused when too many wait', async () => {
    const rig = await Rig.start({ ringBytes: 1 << 20 })
    const waiting = Array.from({ length: APPENDS_IN_FLIGHT_MAX }, (_, n) => answerOf(rig.log.append(object('a', n))))
    assert.equal(await rig.store('a', -1), 'concurrency_exceeded')
    await rig.step()
    assert(waiting.every(({ code }) => code === null))
    assert.equal(await rig.store('a', -2), null)
  })

  it('because the journal died is refused or stored, never both, and the next one is taken', async () => {
    const rig = await Rig.start()
    assert.equal(await rig.store('a', 1), null)
    const answer = answerOf(rig.log.append(object('a', 2)))
    rig.world.lanes[0]!.die()
    await nextTurn()
    assert.equal(answer.code, 'wal_unavailable')
    assert.equal(await rig.store('a', 3), null)
    await rig.reopen('kill')
    assert.deepEqual(rig.log.recent.newestFirst('a'), ['{"n":3}', '{"n":1}'])
  })
})

describe('the log', () => {
  it('stays bounded however much is written, and keeps what is live', async () => {
    const rig = await Rig.start()
    let longest = 0
    for (let n = 0; n < 2000; n++) {
      assert.equal(await rig.store(`activation-${n % 7}`, n), null)
      longest = Math.max(longest, rig.segmentBytes)
    }
    assert(longest < 40_000, `${longest} bytes`)
    assert.equal(rig.log.recent.newest('activation-4'), JSON.stringify({ n: 1999 }))
    const before = [...rig.log.recent.all()]
    await rig.reopen('crash')
    assert.deepEqual([...rig.log.recent.all()], before)
    assert.deepEqual(rig.incidents, [])
  })

  it('answers what was sent while it is compacted', async () => {
    const rig = await Rig.start()
    const answers = Array.from({ length: 300 }, (_, n) => answerOf(rig.log.append(object('a', n))))
    await rig.step() // the log is long enough for a compaction, which now waits for its own frames
    const during = Array.from({ length: 5 }, (_, n) => answerOf(rig.log.append(object('b', n))))
    assert(answers.every(({ code }) => code === null))
    for (let i = 0; i < 10; i++) await rig.step()
    assert(during.every(({ code }) => code === null))
    assert.equal(rig.log.recent.newestFirst('b').length, 5)
  })

  it('goes on with what it had when a compaction fails', async () => {
    const rig = await Rig.start()
    const answers = Array.from({ length: 300 }, (_, n) => answerOf(rig.log.append(object('a', n))))
    await rig.step()
    assert(answers.every(({ code }) => code === null))
    const held = answerOf(rig.log.append(object('a', 300)))
    rig.world.lanes[0]!.die()
    await nextTurn()
    assert.equal(held.code, 'wal_unavailable')
    assert.equal(await rig.store('a', 301), null)
    const before = rig.log.recent.newestFirst('a')
    assert.deepEqual(before.slice(0, 3), ['{"n":301}', '{"n":299}', '{"n":298}'])
    await rig.reopen('kill')
    assert.deepEqual(rig.log.recent.newestFirst('a'), before)
  })

  it('drops what was copied also when the crash came before main heard of the copy', async () => {
    const rig = await Rig.start()
    let n = 0
    for (let copied = false; !copied; n++) {
      assert.equal(await rig.store('a', n), null)
      const bytes = rig.segmentBytes
      rig.stepWithoutNotice()
      copied = rig.segmentBytes > bytes
    }
    assert(rig.segmentBytes > SIZES.compactLogBytesMin)
    await rig.reopen('kill')
    assert(rig.segmentBytes < SIZES.compactLogBytesMin, `${rig.segmentBytes} bytes`)
    assert.equal(rig.log.recent.newest('a'), JSON.stringify({ n: n - 1 }))
  })

  it('reports damage, and serves the rest', async () => {
    const rig = await Rig.start()
    for (let n = 0; n < 3; n++) await rig.store('a', n)
    await rig.log.close()
    const path = rig.world.files.paths().find((name) => name.endsWith('/records.log'))!
    rig.world.files.damage(path, (content) => {
      content[64 + 48 + 6]! ^= 1 // in the payload of the first frame
      return content
    })
    await rig.open()
    assert.deepEqual(rig.log.recent.newestFirst('a'), ['{"n":2}', '{"n":1}'])
    assert.equal(rig.incidents.length, 1)
  })
})

describe('whatever happens in whatever order', () => {
  it('exactly a beginning of what was sent is there after a crash, and all that was answered is in it', async () => {
    await fc.assert(
      fc.asyncProperty(operations, fc.nat(), fc.constantFrom(...TIGHT_RINGS), async (operations, seed, ringBytes) => {
        const model = new ModelRun(await Rig.start({ seed, ringBytes, limits: TIGHT_LIMITS }))
        for (const operation of operations) await model.run(operation)
        assert.deepEqual(model.rig.incidents, [])
      }),
      { numRuns: 150 },
    )
  })
})

type Operation =
  | { readonly kind: 'store'; readonly id: string; readonly count: number }
  | { readonly kind: 'step' | 'kill' | 'crash' | 'close' | 'die' | 'step without notice' | 'crash while syncing' }

const operation = (kind: Exclude<Operation['kind'], 'store'>) => fc.constant({ kind })

const operations = fc.array<Operation>(
  fc.oneof(
    {
      weight: 10,
      arbitrary: fc.record({
        kind: fc.constant('store' as const),
        id: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
        count: fc.integer({ min: 1, max: 25 }),
      }),
    },
    { weight: 8, arbitrary: operation('step') },
    { weight: 6, arbitrary: operation('step without notice') },
    { weight: 3, arbitrary: operation('crash while syncing') },
    operation('kill'),
    operation('crash'),
    operation('close'),
    operation('die'),
  ),
  { minLength: 20, maxLength: 100, size: 'max' },
)

/** The log beside the list of appended objects. */
class ModelRun {
  readonly rig: Rig
  /** Objects that are, or may be, in the log, in order. */
  #sent: { readonly stored: StoredObject; readonly answer: Answer }[] = []
  #count = 0

  constructor(rig: Rig) {
    this.rig = rig
  }

  async run(operation: Operation): Promise<void> {
    switch (operation.kind) {
      case 'store':
        for (let i = 0; i < operation.count; i++) {
          const stored = object(operation.id, this.#count++)
          this.#sent.push({ stored, answer: answerOf(this.rig.log.append(stored)) })
        }
        break
      case 'step':
        await this.rig.step()
        break
      case 'step without notice':
        this.rig.stepWithoutNotice()
        break
      case 'die':
        this.rig.world.lanes[0]!.die()
        await settled()
        this.#sent = this.#sent.filter(({ answer }) => answer.code === null || answer.code === undefined)
        break
      case 'crash while syncing':
        // The group is written but not synced: any part of it may survive the crash.
        this.rig.world.files.faults = { sync: () => 'EIO' }
        await this.rig.step()
        this.rig.world.files.faults = {}
        await this.#reopen('crash')
        break
      default:
        await this.#reopen(operation.kind)
    }
  }

  async #reopen(how: 'kill' | 'crash' | 'close'): Promise<void> {
    await this.rig.reopen(how)
    await settled()
    this.#sent = this.#sent.filter(({ answer }) => answer.code !== 'concurrency_exceeded') // refused objects were not written
    this.#check()
    for (const { answer } of this.#sent) answer.code = null // it is in the log now, so it must stay there
  }

  #check(): void {
    const answered = this.#sent.findLastIndex(({ answer }) => answer.code === null) + 1
    const found = [...this.rig.log.recent.all()]
    const state = new RecentObjects(TIGHT_LIMITS)
    for (const [i, { stored }] of this.#sent.entries()) {
      if (i >= answered && isSame(state, found)) {
        this.#sent.splice(i)
        return
      }
      state.add(stored)
    }
    assert.deepEqual(found, [...state.all()])
  }
}

const isSame = (state: RecentObjects, found: readonly StoredObject[]): boolean =>
  JSON.stringify([...state.all()]) === JSON.stringify(found)

/** Waits until everything that was begun has ended. */
async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await nextTurn()
}
