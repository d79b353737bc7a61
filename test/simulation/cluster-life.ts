/**
 * The life of a cluster in a simulated world: nodes on a stream, clients that write and read, and everything that can go wrong. The same seed
 * makes the same life.
 *
 * The laws:
 * W1  an acknowledged write is there once, on every node, at the place where it was acknowledged
 * W2  all nodes have the history that the stream tells
 * W3  no read returns less than any client had been told before the read began
 * W4  once a leader has answered, no leader of an earlier epoch answers any more
 * W5  when all trouble has ended, the cluster goes on, and all nodes get the same history
 */
import assert from 'node:assert/strict'
import type { ClusterMessage } from '../../src/cluster/message.ts'
import type { ClusterTimes } from '../../src/cluster/node.ts'
import { mulberry32 } from '../support/sim-files.ts'
import { SimulatedNode } from './cluster-node.ts'
import type { Body, Entry, NodeTaste, NodeWorld, Reply } from './cluster-node.ts'
import { SimulatedStream } from './cluster-stream.ts'

export const TIMES: ClusterTimes = {
  leaseMs: 2000,
  followMs: 3000,
  spreadMs: 500,
  beatMs: 500,
  ackMs: 400,
  lookMs: 300,
  pauseMs: 20,
}

export interface LifeOptions {
  readonly seed: number
  readonly times?: ClusterTimes
}

export interface LifeReport {
  readonly events: number
  readonly acknowledged: number
  /** How often each kind of event happened. */
  readonly counts: ReadonlyMap<string, number>
}

export class LawBroken extends Error {
  constructor(seed: number, atMs: number, cause: unknown) {
    super(`seed ${seed}, at ${Math.round(atMs)} ms: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
}

const TROUBLED_MS_MAX = 40_000
const HEALED_MS = 40_000
const CLIENTS_MAX = 4
/** Fewest messages that the stream keeps. With fewer than a node has unsynced, it could lose them: settings do not allow that. */
const KEPT_MIN = 150

/** @throws LawBroken */
export function liveCluster({ seed, times = TIMES }: LifeOptions): LifeReport {
  const life = new ClusterLife(seed, times)
  try {
    life.run()
  } catch (error) {
    throw new LawBroken(seed, life.nowMs, error)
  }
  return { events: life.events, acknowledged: life.acknowledged.size, counts: life.counts }
}

class ClusterLife {
  nowMs = 0
  events = 0
  readonly acknowledged = new Set<number>()
  readonly counts = new Map<string, number>()
  readonly #random: () => number
  readonly #queue = new EventQueue()
  readonly #stream: SimulatedStream<Body>
  readonly #nodes: readonly SimulatedNode[]
  readonly #truth = new Truth()
  /** Time at which all trouble ends. */
  readonly #healedMs: number
  readonly #troubles: Troubles
  #lastId = 0
  /** W3: the highest version that any client has been told. */
  #told = 0
  /** W4: the highest epoch that has answered. */
  #answeredEpoch = 0
  #answeredHealed = 0

  constructor(seed: number, times: ClusterTimes) {
    const random = mulberry32(Math.imul(seed, 0x9e3779b1))
    this.#random = random
    const pick = <Value>(...values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!
    this.#healedMs = 5000 + random() * TROUBLED_MS_MAX
    this.#troubles = {
      everyMs: pick(300, 1500, 6000),
      delayMs: pick(0.5, 3, 20),
      lateShare: pick(0, 0.01, 0.1),
      lostShare: pick(0, 0.01, 0.1),
      twiceShare: pick(0, 0.05),
      kinds: (['crash', 'stop', 'cut', 'elect', 'hand over', 'miss'] as const).filter(() => random() < 0.6),
    }
    const stream = new SimulatedStream<Body>(
      { random, after: this.#after },
      {
        agreeMs: pick(0.2, 2, 15),
        staleShare: pick(0, 0.05, 0.3),
        refusesEarly: random() < 0.5,
        kept: pick(KEPT_MIN, 4 * KEPT_MIN, Infinity),
      },
    )
    this.#stream = stream
    stream.onStored = (sequence, message) => {
      this.#truth.take(message)
      for (const node of this.#nodes) this.#pump(node)
      void sequence
    }
    const isClusterOnly = random() < 0.5
    const partShare = pick(0, 0.1, 0.5)
    this.#nodes = Array.from({ length: pick(1, 2, 3, 3) }, (_, i) => {
      const taste: NodeTaste = {
        times,
        syncMs: pick(1, 10, 100),
        inFlightMax: pick(1, 8, 64),
        clockRate: 0.95 + 0.1 * random(),
        isClusterOnly,
        partShare,
      }
      return new SimulatedNode(`node-${i + 1}`, this.#world, taste)
    })
  }

  run(): void {
    for (const node of this.#nodes) node.start()
    const clients = 1 + Math.floor(this.#random() * CLIENTS_MAX)
    for (let client = 0; client < clients; client += 1) this.#after(this.#random() * 1000, () => this.#ask(0))
    this.#trouble()
    const endMs = this.#healedMs + HEALED_MS
    this.#after(this.#healedMs, () => this.#heal())
    for (let event = this.#queue.next(); event !== null && event.atMs <= endMs; event = this.#queue.next()) {
      this.nowMs = event.atMs
      this.events += 1
      event.run()
    }
    this.#checkEnd()
  }

  readonly #after = (delayMs: number, run: () => void): void => this.#queue.add(this.nowMs + delayMs, run)

  readonly #count = (what: string): void => void this.counts.set(what, (this.counts.get(what) ?? 0) + 1)

  get #isHealed(): boolean {
    return this.nowMs >= this.#healedMs
  }

  // The network

  /** Calls `run` once, late, twice, or never. */
  #carry(isCut: () => boolean, run: () => void, mayRepeat = true): void {
    const { lostShare, twiceShare } = this.#troubles
    if (!this.#isHealed && this.#random() < lostShare) return
    const times = mayRepeat && this.#random() < twiceShare ? 2 : 1
    for (let time = 0; time < times; time += 1) this.#after(this.#delay(), () => void (isCut() || run()))
  }

  #delay(): number {
    const { delayMs, lateShare } = this.#troubles
    const isLate = !this.#isHealed && this.#random() < lateShare
    return delayMs * (0.2 + this.#random()) + (isLate ? this.#random() ** 3 * 8000 : 0)
  }

  readonly #world: NodeWorld = {
    random: () => this.#random(),
    after: (delayMs, run) => this.#after(delayMs, run),
    nowMs: () => this.nowMs,
    publish: (node, expectedLast, message, reply) =>
      this.#carry(
        () => node.isCutOut,
        () =>
          this.#stream.publish(expectedLast, message, (sequence) =>
            this.#carry(
              () => node.isCutIn,
              () => reply(sequence),
            ),
          ),
      ),
    lookUp: (node, sequence, reply) =>
      this.#carry(
        () => node.isCutOut,
        () =>
          this.#stream.lookUp(sequence, (found) =>
            this.#carry(
              () => node.isCutIn,
              () => reply(found),
              false,
            ),
          ),
      ),
    follow: (node, from) => this.#follow(node, from),
    catchUp: (node) => this.#catchUp(node),
    onCommitted: (node, index, entry) => {
      assert.equal(
        this.#truth.entries[index]?.id,
        entry.id,
        `W2: ${node.name} holds confirmed what the stream does not say`,
      )
    },
    onAnswer: (node, epoch) => {
      assert.ok(
        epoch >= this.#answeredEpoch,
        `W4: ${node.name} answers in epoch ${epoch} after epoch ${this.#answeredEpoch}`,
      )
      this.#answeredEpoch = epoch
    },
    count: this.#count,
  }

  // What nodes follow

  readonly #next = new Map<SimulatedNode, number>()
  readonly #lastDeliveryMs = new Map<SimulatedNode, number>()

  #follow(node: SimulatedNode, from: number): void {
    node.consumer += 1
    const { consumer, life } = node
    this.#after(this.#delay(), () => {
      if (node.consumer !== consumer || node.life !== life) return
      this.#next.set(node, from)
      this.#pump(node)
    })
  }

  #pump(node: SimulatedNode): void {
    const { consumer, life } = node
    const from = this.#next.get(node)
    if (from === undefined || node.node === null || node.isCutIn) return
    const role = node.node.role
    if (role === 'leading' || role === 'catching up') return
    if (from < this.#stream.first) {
      this.#next.delete(node)
      const isStillThere = (): boolean => node.consumer === consumer
      return this.#after(this.#delay(), () =>
        node.do(life, () => void (isStillThere() && node.node!.trimmed(node.clockMs))),
      )
    }
    for (let sequence = from; sequence <= this.#stream.last; sequence += 1) {
      const message = this.#stream.at(sequence)!
      this.#next.set(node, sequence + 1)
      if (!this.#isHealed && this.#troubles.kinds.includes('miss') && this.#random() < 0.01) continue
      const atMs = Math.max((this.#lastDeliveryMs.get(node) ?? 0) + 0.001, this.nowMs + this.#delay())
      this.#lastDeliveryMs.set(node, atMs)
      this.#after(atMs - this.nowMs, () =>
        node.do(life, () => void (node.consumer === consumer && node.node!.delivered(sequence, message, node.clockMs))),
      )
    }
  }

  #catchUp(node: SimulatedNode): void {
    const { life } = node
    this.#after(200 + this.#random() * 500, () =>
      node.do(life, () => {
        if (node.node!.role !== 'catching up') return
        const leader = this.#nodes.find((each) => each !== node && each.node?.role === 'leading' && !each.isStopped)
        if (leader === undefined) return this.#catchUp(node)
        const { anchor } = leader.node!
        const count = anchor.end.position / 8
        node.caughtUp(leader.disk.entries.slice(0, count), anchor)
      }),
    )
  }

  // What clients do

  /** A client, which sends one request after the other. */
  #ask(target: number): void {
    const node = this.#nodes[target % this.#nodes.length]!
    const again = (isAnswered: boolean): void => {
      const next = isAnswered ? target : target + 1
      const pauseMs = isAnswered ? this.#random() * 60 : 20 + this.#random() * 200
      this.#after(pauseMs, () => this.#ask(next))
    }
    const { life } = node
    if (!node.isUp) return again(false)
    const floor = this.#told
    const isWrite = this.#random() < 0.6
    const id = isWrite ? (this.#lastId += 1) : 0
    let isOver = false
    const done = (reply: Reply): void => {
      if (isOver) return
      isOver = true
      again(reply !== null)
    }
    const answer = (reply: Reply): void => {
      if (reply !== null) this.#check(reply, isWrite ? id : null, floor)
      // The client gets the answer later, or never.
      this.#after(this.#delay(), () => {
        if (reply !== null) this.#told = Math.max(this.#told, reply.version)
        done(reply)
      })
    }
    this.#after(this.#delay(), () =>
      node.do(life, () =>
        node.ask(isWrite ? { kind: 'write', id } : { kind: 'read', isToldAtOnce: this.#random() < 0.5 }, answer),
      ),
    )
    this.#after(200 + this.#random() * 2000, () => done(null))
  }

  #check({ version }: NonNullable<Reply>, id: number | null, floor: number): void {
    assert.ok(version >= floor, `W3: version ${version} was told after ${floor}`)
    if (this.#isHealed) this.#answeredHealed += 1
    if (id === null) return
    assert.equal(this.#truth.entries[version - 1]?.id, id, 'W1: what is acknowledged is in the stream')
    assert.ok(!this.acknowledged.has(id), 'W1: once')
    this.acknowledged.add(id)
  }

  // What goes wrong

  #trouble(): void {
    if (this.#isHealed) return
    const { kinds, everyMs } = this.#troubles
    const kind = kinds[Math.floor(this.#random() * kinds.length)]
    const node = this.#nodes[Math.floor(this.#random() * this.#nodes.length)]!
    const forMs = this.#random() ** 2 * 12_000
    if (kind !== undefined) this.#cause(kind, node, forMs)
    this.#after(this.#random() * 2 * everyMs, () => this.#trouble())
  }

  #cause(kind: Trouble, node: SimulatedNode, forMs: number): void {
    this.#count(kind)
    switch (kind) {
      case 'crash':
        if (!node.isUp) return
        node.crash()
        return this.#after(forMs, () => this.#restart(node))
      case 'stop':
        node.stop()
        return this.#after(forMs, () => node.resume())
      case 'cut': {
        const way = Math.floor(this.#random() * 3)
        if (way !== 0) node.isCutOut = true
        if (way !== 1) node.isCutIn = true
        return this.#after(forMs, () => this.#join(node))
      }
      case 'elect':
        return this.#stream.elect(forMs / 4)
      case 'hand over': {
        const successor =
          this.#random() < 0.5 ? null : this.#nodes[Math.floor(this.#random() * this.#nodes.length)]!.name
        return node.do(node.life, () => node.handOver(successor))
      }
      case 'miss':
    }
  }

  #restart(node: SimulatedNode): void {
    if (!node.isUp) node.start()
  }

  #join(node: SimulatedNode): void {
    node.isCutOut = false
    node.isCutIn = false
    this.#pump(node)
  }

  #heal(): void {
    for (const node of this.#nodes) {
      this.#restart(node)
      node.resume()
      this.#join(node)
      // A real consumer learns from the server's heartbeats that it has missed messages.
      if (node.node!.role === 'following') this.#follow(node, node.node!.sequence + 1)
    }
  }

  /** W1, W2, W5 */
  #checkEnd(): void {
    assert.ok(this.#answeredHealed > 0, 'W5: nothing is answered although nothing goes wrong any more')
    const truth = this.#truth.entries
    const ids = new Set(truth.map(({ id }) => id))
    assert.equal(ids.size, truth.length, 'W1: once')
    for (const id of this.acknowledged) assert.ok(ids.has(id), `W1: ${id} was acknowledged and is not there`)
    for (const node of this.#nodes) {
      const own = node.disk.entries.slice(0, node.confirmed)
      for (const [index, { id }] of own.entries()) assert.equal(id, truth[index]?.id, `W2: ${node.name} at ${index}`)
      assert.ok(
        truth.length - own.length < 200,
        `W5: ${node.name} is ${truth.length - own.length} behind, ${node.node!.role}`,
      )
    }
  }
}

type Trouble = 'crash' | 'stop' | 'cut' | 'elect' | 'hand over' | 'miss'

interface Troubles {
  readonly everyMs: number
  readonly delayMs: number
  readonly lateShare: number
  readonly lostShare: number
  readonly twiceShare: number
  readonly kinds: readonly Trouble[]
}

/** The history that the stream tells, found without the code under test. */
class Truth {
  readonly entries: Entry[] = []
  #epoch = 0
  #writer = ''
  #next = 0
  #parts: Entry[] = []
  #isOver = false

  take({ kind, epoch, writer, ordinal, part, body }: ClusterMessage<Body>): void {
    if (kind === 'epoch' && epoch > this.#epoch) {
      this.#epoch = epoch
      this.#writer = writer
      this.#next = 1
      this.#parts = []
      this.#isOver = false
      return
    }
    if (kind === 'epoch' || epoch !== this.#epoch || writer !== this.#writer || ordinal !== this.#next || this.#isOver)
      return
    this.#next += 1
    if (kind === 'resign') this.#isOver = true
    if (body === null) return
    this.#parts.push(...body)
    if (part === null || part.index === part.count - 1) this.entries.push(...this.#parts.splice(0))
  }
}

interface Event {
  readonly atMs: number
  readonly order: number
  readonly run: () => void
}

/** Events by time, then in the order in which they were added. */
class EventQueue {
  readonly #heap: Event[] = []
  #order = 0

  add(atMs: number, run: () => void): void {
    const heap = this.#heap
    let at = heap.length
    const event = { atMs, order: (this.#order += 1), run }
    heap.push(event)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(event, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = event
  }

  next(): Event | null {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || first === last) return first ?? null
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1
      if (!isBefore(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
    return first
  }
}

const isBefore = (one: Event, other: Event): boolean =>
  one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order)
