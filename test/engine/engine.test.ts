import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LATER, replied } from '../../src/engine/decision.ts'
import type { Answer, Decision, NewFrame } from '../../src/engine/decision.ts'
import { Engine } from '../../src/engine/engine.ts'
import type { Turn } from '../../src/engine/engine.ts'
import { Appender, FrameLost, FrameNotTaken } from '../../src/engine/appender.ts'
import { World, replay } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

/** The state: one letter from each frame. */
interface Letters {
  readonly all: string[]
}

const WORDS = (cause: unknown): Error => {
  if (cause instanceof FrameNotTaken) return new Error(`not taken: ${cause.reason}`)
  return cause instanceof FrameLost ? new Error('lost') : new Error(String(cause))
}

/** An engine on a log that the test steps, and the outcomes of its operations, in order. */
class Rig {
  readonly world = new World({ seed: 1 })
  readonly heard: string[] = []
  engine!: Engine<Letters, never>
  nowMs = 0

  async open(inFlightBytesMax = Infinity): Promise<this> {
    const log = await this.world.open({ ringBytes: 4096 })
    const onLost = (): void => {
      const kept = replay(log, this.world.files).frames.map(({ payload }) => payload.toString())
      this.engine.replaceState({ all: kept })
    }
    const defer = (run: () => void): void => queueMicrotask(run)
    const appender = new Appender(log, { segmentEnding: () => {}, onLost, defer, nowMs: () => 0 })
    const machine = {
      apply: (state: Letters, { payload }: { readonly payload: Buffer }) => void state.all.push(payload.toString()),
    }
    this.engine = new Engine(
      { log, appender, machine, nowMs: () => this.nowMs, waitingMax: 10, inFlightBytesMax, defer },
      { all: [] },
    )
    return this
  }

  get letters(): string {
    return this.engine.state.all.join('')
  }

  run(name: string, decide: (turn: Turn) => Decision<string, never>): void {
    this.engine.run(decide, this.answer(name), WORDS)
  }

  answer(name: string): Answer<string> {
    return {
      answered: (reply) => void this.heard.push(`${name}: ${reply}`),
      refused: (error) => void this.heard.push(`${name} refused: ${(error as Error).message}`),
    }
  }

  add(letter: string): void {
    this.run(letter, () => ({ kind: 'change', frame: frameOf(letter), reply: () => 'added' }))
  }

  async step(): Promise<void> {
    this.world.step()
    await nextTurn()
  }

  async die(): Promise<void> {
    this.world.lanes[0]!.die()
    await nextTurn()
  }

  taken(): string[] {
    return this.heard.splice(0)
  }
}

const frameOf = (letter: string, durability: NewFrame<never>['durability'] = 'sync'): NewFrame<never> => ({
  type: 1,
  payloadBytes: 1,
  encode: (target, at) => void target.write(letter, at),
  purpose: 'admit',
  durability,
})

const found = (reading: Promise<string>): Decision<string, never> => ({
  kind: 'read',
  read: async () => {
    const reply = await reading
    return () => replied(reply)
  },
})

const opened = (): Promise<Rig> => new Rig().open()

describe('the engine', () => {
  it('gives a change its effect at once, and tells of it when it is stored (E1, E2)', async () => {
    const rig = await opened()
    rig.add('a')
    assert.deepEqual([rig.letters, rig.taken()], ['a', []])
    await rig.step()
    assert.deepEqual(rig.taken(), ['a: added'])
  })

  it('tells a reply and a refusal behind what they were judged on, in the order they came (E2)', async () => {
    const rig = await opened()
    rig.run('before', () => replied(rig.letters))
    assert.deepEqual(rig.taken(), ['before: '], 'at once, when nothing is on its way')
    rig.add('a')
    rig.run('reply', () => replied(rig.letters))
    rig.run('refusal', () => new Error('no'))
    rig.run('thrown', () => {
      throw new Error('no, too')
    })
    rig.add('b')
    assert.deepEqual(rig.taken(), [])
    await rig.step()
    assert.deepEqual(rig.taken(), [
      'a: added',
      'reply: a',
      'refusal refused: no',
      'thrown refused: no, too',
      'b: added',
    ])
  })

  it('tells what was found in several turns behind everything that was appended until then (E2)', async () => {
    const rig = await opened()
    let find = (_found: string): void => {}
    const reading = new Promise<string>((resolve) => (find = resolve))
    rig.run('read', () => found(reading))
    rig.add('a')
    find('found')
    await nextTurn()
    assert.deepEqual(rig.taken(), [])
    await rig.step()
    assert.deepEqual(rig.taken(), ['a: added', 'read: found'])
  })

  it('decides on the state as it is when everything was read', async () => {
    const rig = await opened()
    rig.run('copy', () => ({
      kind: 'read',
      read: async () => {
        await nextTurn()
        return () => ({ kind: 'change', frame: frameOf('c'), reply: () => `behind ${rig.letters}` })
      },
    }))
    rig.add('a')
    await nextTurn()
    await nextTurn()
    assert.equal(rig.letters, 'ac')
    await rig.step()
    assert.deepEqual(rig.taken(), ['a: added', 'copy: behind ac'])
  })

  it('tells at once only what says so', async () => {
    const rig = await opened()
    rig.add('a')
    const told = { kind: 'change', frame: frameOf('v', 'volatile'), reply: () => 'told', isToldAtOnce: true } as const
    rig.run('volatile', () => told)
    rig.run('page', () => ({
      kind: 'read',
      read: async () => () => ({ kind: 'reply', reply: 'page', isToldAtOnce: true }) as const,
    }))
    await nextTurn()
    assert.deepEqual(rig.taken(), ['volatile: told', 'page: page'])
    await rig.step()
    assert.deepEqual(rig.taken(), ['a: added'])
  })

  it('refuses who brought what was lost, and has all others decide again on what is left (E3)', async () => {
    const rig = await opened()
    rig.add('a')
    await rig.step()
    rig.add('b')
    rig.run('reply', () => replied(rig.letters))
    rig.run('other reply', () => replied(rig.letters))
    rig.run('refusal', () => (rig.letters === 'a' ? replied('right') : new Error('too many')))
    rig.run('read', () => found(Promise.resolve(rig.letters)))
    await nextTurn()
    assert.deepEqual(rig.taken(), ['a: added'])
    await rig.die()
    await nextTurn()
    assert.equal(rig.letters, 'a')
    const heard = rig.taken()
    assert.deepEqual(heard.toSorted(), ['b refused: lost', 'other reply: a', 'read: a', 'refusal: right', 'reply: a'])
    assert.ok(heard.indexOf('reply: a') < heard.indexOf('other reply: a'))
  })

  it('begins anew with what was being read when something was lost (E3)', async () => {
    const rig = await opened()
    rig.add('a')
    let reads = 0
    rig.run('read', () => ({
      kind: 'read',
      read: async () => {
        reads += 1
        if (reads === 1) await rig.die()
        const { letters } = rig
        return () => replied(`${letters}, read ${reads} times`)
      },
    }))
    for (let turns = 0; turns < 3; turns += 1) await nextTurn()
    assert.deepEqual(rig.taken(), ['a refused: lost', 'read: , read 2 times'])
  })

  it('lets a decision that follows a loss bring a frame', async () => {
    const rig = await opened()
    rig.add('a')
    rig.run('second', () =>
      rig.letters === '' ? { kind: 'change', frame: frameOf('z'), reply: () => 'added' } : new Error('there is one'),
    )
    await rig.die()
    for (let steps = 0; steps < 5; steps += 1) await rig.step()
    const heard = rig.taken()
    assert.equal(heard[0], 'a refused: lost')
    // When the operation is decided again, the next journal may not run yet.
    assert.ok(heard[1] === 'second: added' || heard[1] === 'second refused: not taken: read-only', heard[1])
  })

  it('decides again what wants to wait for what is on its way', async () => {
    const rig = await opened()
    const turns: Turn[] = []
    rig.add('a')
    rig.run('later', (turn) => {
      turns.push(turn)
      return turn === 'first' ? LATER : replied(rig.letters)
    })
    assert.deepEqual(rig.taken(), [])
    await rig.step()
    assert.deepEqual(
      [rig.taken(), turns],
      [
        ['a: added', 'later: a'],
        ['first', 'again'],
      ],
    )
  })

  it('brings what a frame builds on before it, and nothing when neither is taken', async () => {
    const rig = await opened()
    rig.run('both', () => ({ kind: 'change', before: [frameOf('1')], frame: frameOf('2'), reply: () => 'added' }))
    assert.equal(rig.letters, '12')
    await rig.step()
    assert.deepEqual(rig.taken(), ['both: added'])
    await rig.engine.log.close()
    rig.run('late', () => ({ kind: 'change', before: [frameOf('3')], frame: frameOf('4'), reply: () => 'added' }))
    assert.deepEqual([rig.letters, rig.taken()], ['12', ['late refused: not taken: read-only']])
  })

  it('has who finds no room decide when there is some, in the order they came (E5)', async () => {
    const rig = await new Rig().open(1)
    rig.add('a')
    rig.add('b')
    rig.run('c', () => (rig.letters === 'ab' ? new Error('too late') : replied('in time')))
    rig.run('d', () => ({ kind: 'change', frame: frameOf('d'), reply: () => `behind ${rig.letters}` }))
    assert.equal(rig.letters, 'a', 'one fills the room')
    for (let steps = 0; steps < 3; steps += 1) await rig.step()
    assert.deepEqual(rig.taken(), ['a: added', 'c: in time', 'b: added', 'd: behind abd'])
  })

  it('parks who waits, wakes it, and asks it for the last time when its time is over', async () => {
    const rig = await opened()
    const place = { number: 7, queue: 'q' }
    const wait = { kind: 'wait', place, waitMs: 100, takesAny: true, onAbandoned: () => {} } as const
    const served = (turn: Turn): Decision<string, never> => {
      if (turn === 'last') return replied('nothing')
      return rig.letters === '' ? wait : replied(rig.letters)
    }
    rig.run('first', served)
    rig.engine.parked.wake(7)
    assert.deepEqual(rig.taken(), [])
    rig.nowMs = 100
    rig.engine.parked.endExpired()
    assert.deepEqual(rig.taken(), ['first: nothing'])
    rig.run('second', served)
    rig.add('a')
    rig.engine.parked.wake(7, 'q')
    assert.deepEqual(rig.taken(), [], 'what it was served with is not stored yet')
    await rig.step()
    assert.deepEqual(rig.taken(), ['a: added', 'second: a'])
  })

  it('stores the steps of a longer work, and rejects in the words of its caller', async () => {
    const rig = await opened()
    const stored = rig.engine.store(frameOf('a'), WORDS)
    await rig.step()
    await stored
    const lost = rig.engine.store(frameOf('b'), WORDS)
    const failed = assert.rejects(lost, { message: 'lost' })
    await rig.die()
    await failed
    await rig.engine.log.close()
    await assert.rejects(rig.engine.store(frameOf('c'), WORDS), { message: 'not taken: read-only' })
  })

  it('begins anew with a read that failed in a state that is another one now (E3)', async () => {
    const rig = await opened()
    rig.add('a')
    let reads = 0
    rig.run('read', () => ({
      kind: 'read',
      read: async () => {
        reads += 1
        if (reads > 1) return () => replied(rig.letters)
        await rig.die()
        throw new Error('what was to be read is lost')
      },
    }))
    for (let turns = 0; turns < 3; turns += 1) await nextTurn()
    assert.deepEqual([rig.taken(), reads], [['a refused: lost', 'read: '], 2])
  })
})
