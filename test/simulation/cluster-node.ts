/**
 * A machine with one log, as the cluster sees it: a disk that syncs late and loses what it did not sync, a process that can be stopped and
 * killed, a clock of its own, and the state machine under test between them.
 */
import assert from 'node:assert/strict'
import { STREAM_BEGIN } from '../../src/cluster/history.ts'
import type { Anchor } from '../../src/cluster/history.ts'
import { Gathering } from '../../src/cluster/lane/gathering.ts'
import { LOG_BEGIN, isSamePlace, writerOf } from '../../src/cluster/message.ts'
import type { ClusterMessage, LogPlace } from '../../src/cluster/message.ts'
import { ClusterNode } from '../../src/cluster/node.ts'
import type { ClusterAction, ClusterTimes } from '../../src/cluster/node.ts'

/** A frame with a client's write. */
export interface Entry {
  readonly id: number
  readonly begin: LogPlace
  readonly end: LogPlace
}
export type Body = readonly Entry[]

interface Disk {
  entries: Entry[]
  synced: number
  anchor: Anchor
}

export type Request =
  | { readonly kind: 'write'; readonly id: number }
  | { readonly kind: 'read'; readonly isToldAtOnce: boolean }
/** Null: refused. The client does not know whether its write is stored. */
export type Reply = { readonly epoch: number; readonly version: number } | null

interface Waiting {
  /** Number of entries that must be committed before the answer. */
  readonly version: number
  readonly answer: (reply: Reply) => void
}

/** Interval at which the anchor is written when nothing else is. */
const ANCHOR_MS = 1000

export interface NodeWorld {
  readonly random: () => number
  readonly after: (delayMs: number, run: () => void) => void
  readonly nowMs: () => number
  /** Publishes to the stream; `reply` may come late, or never. */
  readonly publish: (
    node: SimulatedNode,
    expectedLast: number,
    message: ClusterMessage<Body>,
    reply: (sequence: number | null) => void,
  ) => void
  readonly lookUp: (node: SimulatedNode, sequence: number, reply: (found: ClusterMessage<Body> | null) => void) => void
  readonly follow: (node: SimulatedNode, from: number) => void
  readonly catchUp: (node: SimulatedNode) => void
  /** Called with each entry that the leader says is confirmed. */
  readonly onCommitted: (node: SimulatedNode, index: number, entry: Entry) => void
  readonly onAnswer: (node: SimulatedNode, epoch: number) => void
  readonly count: (what: string) => void
}

export interface NodeTaste {
  readonly times: ClusterTimes
  readonly syncMs: number
  readonly inFlightMax: number
  readonly clockRate: number
  /** Answers wait only for the stream, not for the disk. */
  readonly isClusterOnly: boolean
  readonly partShare: number
}

export class SimulatedNode {
  readonly name: string
  readonly taste: NodeTaste
  readonly disk: Disk = { entries: [], synced: 0, anchor: STREAM_BEGIN }
  node: ClusterNode<Body> | null = null
  isStopped = false
  /** The network from the node is cut, or the network to it. */
  isCutOut = false
  isCutIn = false
  /** Number of the process: calls for earlier processes are dropped. */
  life = 0
  consumer = 0
  readonly #world: NodeWorld
  readonly #clockBeganMs: number
  #backlog: (() => void)[] = []
  #waiting: Waiting[] = []
  #confirmed = 0
  #ledFrom = 0
  /** Number of entries that were offered to the cluster, or came from it. */
  #offered = 0
  #isGroupDue = false
  #gathering = new Gathering()
  /** Entries wait to be sent until the pause is over; any event may end the pause. */
  #isGathering = false
  #isSyncing = false
  #wakeMs = Infinity

  constructor(name: string, world: NodeWorld, taste: NodeTaste) {
    this.name = name
    this.taste = taste
    this.#world = world
    this.#clockBeganMs = world.random() * 1e6
  }

  get isUp(): boolean {
    return this.node !== null
  }

  get confirmed(): number {
    return this.#confirmed
  }

  get clockMs(): number {
    return this.#clockBeganMs + this.#world.nowMs() * this.taste.clockRate
  }

  start(): void {
    const { anchor, entries } = this.disk
    this.life += 1
    this.isStopped = false
    this.#waiting = []
    this.disk.synced = entries.length
    this.#isSyncing = false
    this.#isGroupDue = false
    this.#gathering = new Gathering()
    this.#isGathering = false
    this.#confirmed = this.#countTo(anchor.end)
    this.#offered = this.#confirmed
    this.#ledFrom = 0
    this.#wakeMs = Infinity
    this.node = new ClusterNode<Body>({
      writer: writerOf(this.name, String(this.life)),
      times: this.taste.times,
      anchor,
      nowMs: this.clockMs,
      random: this.#world.random,
      act: (action) => this.#act(action),
    })
    this.#world.follow(this, anchor.sequence + 1)
    this.#setTimer()
    this.#keepAnchor(this.life)
  }

  /** kill -9, or a power cut: a part of the unsynced entries is lost. */
  crash(): void {
    const { disk } = this
    this.node = null
    this.life += 1
    this.consumer += 1
    this.#backlog = []
    const kept = disk.synced + Math.floor(this.#world.random() * (disk.entries.length - disk.synced + 1))
    disk.entries.length = kept
    for (const { answer } of this.#waiting.splice(0)) answer(null)
  }

  stop(): void {
    this.isStopped = true
  }

  resume(): void {
    if (!this.isStopped) return
    this.isStopped = false
    // A process that goes on runs its due timers and reads its full sockets, in any order.
    const backlog = this.#backlog
    this.#backlog = []
    if (this.#world.random() < 0.5) this.#tick()
    for (const run of backlog) run()
    this.#tick()
  }

  /** Runs something in the process, if it is still the same one. */
  do(life: number, run: () => void): void {
    if (life !== this.life || this.node === null) return
    if (this.isStopped) return void this.#backlog.push(() => this.do(life, run))
    run()
    if (life === this.life) this.#settle()
  }

  ask(request: Request, answer: (reply: Reply) => void): void {
    const node = this.node!
    if (!node.takesFrames || !node.mayAnswer(this.clockMs)) return answer(null)
    if (request.kind === 'read') {
      const committed = this.#committed()
      if (!request.isToldAtOnce) this.#waiting.push({ version: this.disk.entries.length, answer })
      else this.#answer({ version: committed, answer })
      return
    }
    if (node.inFlight >= this.taste.inFlightMax) return answer(null)
    const begin = this.disk.entries.at(-1)?.end ?? LOG_BEGIN
    const chain = (Math.imul(begin.chain ^ request.id, 0x9e3779b1) ^ node.epoch) >>> 0
    this.disk.entries.push({ id: request.id, begin, end: { position: begin.position + 8, chain } })
    this.#waiting.push({ version: this.disk.entries.length, answer })
    this.#sync()
    this.#writeGroup()
  }

  handOver(successor: string | null): void {
    this.node!.handOver(successor, this.clockMs)
  }

  /** The disk now has the log of another node. */
  caughtUp(entries: readonly Entry[], anchor: Anchor): void {
    this.disk.entries = [...entries]
    this.disk.synced = entries.length
    this.disk.anchor = anchor
    this.#confirmed = this.#countTo(anchor.end)
    this.#offered = this.#confirmed
    this.node!.caughtUp(anchor, this.clockMs)
  }

  #act(action: ClusterAction<Body>): void {
    const world = this.#world
    const { life } = this
    switch (action.kind) {
      case 'publish': {
        const { attempt, expectedLast, message } = action
        return world.publish(this, expectedLast, message, (sequence) =>
          this.do(life, () => {
            if (sequence === null) this.node!.refused(attempt, this.clockMs)
            else this.node!.acknowledged(attempt, sequence, this.clockMs)
          }),
        )
      }
      case 'look up':
        world.count('looked up')
        return world.lookUp(this, action.sequence, (found) =>
          this.do(life, () => this.node!.lookedUp(action.look, found, this.clockMs)),
        )
      case 'follow':
        return world.follow(this, action.from)
      case 'apply':
        return this.#apply(action.bodies.flat())
      case 'lead':
        world.count('led')
        this.consumer += 1
        this.#cutTo(action.end)
        this.#ledFrom = this.#confirmed
        return
      case 'confirmed':
        return this.#confirmTo(action.end)
      case 'step down':
        world.count('stepped down')
        this.#cutTo(action.end)
        for (const { answer } of this.#waiting.splice(0)) answer(null)
        return
      case 'catch up':
        world.count('caught up')
        return world.catchUp(this)
      case 'stop':
        assert.fail(`${this.name} stopped: ${action.reason}`)
    }
  }

  #writeGroup(): void {
    if (this.#isGroupDue) return
    this.#isGroupDue = true
    const { life } = this
    this.#world.after(this.#world.random(), () =>
      this.do(life, () => {
        this.#isGroupDue = false
        this.#gather()
      }),
    )
  }

  get #waitingGroup(): readonly Entry[] {
    return this.node!.takesFrames ? this.disk.entries.slice(this.#offered) : []
  }

  /** Gathers entries like the lane of a process. An entry counts as a byte. */
  #gather(): void {
    const group = this.#waitingGroup
    const pause = this.#gathering.pause(group.length, this.clockMs)
    this.#isGathering = pause !== null && group.length > 0
    if (!this.#isGathering) return this.#offerGroup(group)
    const { life } = this
    this.#world.count('gathered')
    this.#world.after(pause!.ms / this.taste.clockRate + 0.001, () => this.do(life, () => {}))
  }

  /** Offers several entries in a message, or each entry in parts. */
  #offerGroup(group: readonly Entry[]): void {
    if (group.length === 0) return
    this.#offered = this.disk.entries.length
    if (this.#world.random() >= this.taste.partShare) this.#offer(group, null)
    else {
      for (const entry of group) {
        const count = 2 + Math.floor(this.#world.random() * 3)
        for (let index = 0; index < count; index += 1) this.#offer([entry], { index, count })
        this.#world.count('parts')
      }
    }
    this.#gathering.offered(group.length, group.length, this.clockMs)
  }

  #offer(group: readonly Entry[], part: { readonly index: number; readonly count: number } | null): void {
    const body = part === null || part.index === 0 ? group : []
    this.node!.offer({ begin: group[0]!.begin, end: group.at(-1)!.end, part, body, bytes: group.length }, this.clockMs)
  }

  #apply(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const own = this.disk.entries[this.#confirmed]
      if (own !== undefined && !isSamePlace(own.end, entry.end)) this.#cutTo(entry.begin)
      if (this.disk.entries.length === this.#confirmed) {
        assert.ok(
          isSamePlace(this.disk.entries.at(-1)?.end ?? LOG_BEGIN, entry.begin),
          'frames are applied where the log ends',
        )
        this.disk.entries.push(entry)
      }
      this.#confirmed += 1
    }
    this.#offered = this.#confirmed
    this.#sync()
  }

  #confirmTo(end: LogPlace): void {
    while (
      this.#confirmed < this.disk.entries.length &&
      this.disk.entries[this.#confirmed]!.end.position <= end.position
    ) {
      this.#world.onCommitted(this, this.#confirmed, this.disk.entries[this.#confirmed]!)
      this.#confirmed += 1
    }
    assert.deepEqual(this.disk.entries[this.#confirmed - 1]?.end ?? LOG_BEGIN, end)
  }

  #cutTo(end: LogPlace): void {
    const count = this.#countTo(end)
    if (count < this.disk.entries.length) this.#world.count('tail cut')
    this.disk.entries.length = count
    this.disk.synced = Math.min(this.disk.synced, count)
    this.#confirmed = count
    this.#offered = count
    assert.ok(this.disk.anchor.end.position <= end.position, 'nothing is cut that was confirmed')
  }

  #countTo(end: LogPlace): number {
    const count = end.position / 8
    assert.deepEqual(this.disk.entries[count - 1]?.end ?? LOG_BEGIN, end, `${this.name} holds what was confirmed`)
    return count
  }

  #sync(): void {
    if (this.#isSyncing) return
    this.#isSyncing = true
    const { life } = this
    const { anchor } = this.node!
    const last = this.disk.entries.at(-1)
    const count = this.disk.entries.length
    this.#world.after(this.taste.syncMs * (0.2 + 2 * this.#world.random()), () => {
      if (life !== this.life) return // the kernel of a stopped process goes on, that of a crashed machine does not
      this.#isSyncing = false
      if (this.disk.entries[count - 1] === last) this.disk.synced = Math.max(this.disk.synced, count)
      if (this.disk.anchor.sequence < anchor.sequence && this.disk.synced >= anchor.end.position / 8)
        this.disk.anchor = anchor
      this.do(life, () => {
        if (this.disk.synced < this.disk.entries.length) this.#sync()
      })
    })
  }

  /** Writes the anchor regularly: beats take sequences too, and a stream of beats alone would leave the anchor behind. */
  #keepAnchor(life: number): void {
    this.#world.after(ANCHOR_MS, () => {
      if (life !== this.life) return
      this.do(life, () => this.#sync())
      this.#keepAnchor(life)
    })
  }

  /** Entries of the earlier leader count as stored, although this disk may not have synced them yet: that leader may have answered for them. */
  #committed(): number {
    if (this.taste.isClusterOnly) return this.#confirmed
    return Math.max(this.#ledFrom, Math.min(this.#confirmed, this.disk.synced))
  }

  /** Called after every event. */
  #settle(): void {
    this.#goOnGathering()
    const committed = this.#committed()
    while (this.#waiting.length > 0 && this.#waiting[0]!.version <= committed) this.#answer(this.#waiting.shift()!)
    this.#setTimer()
  }

  #goOnGathering(): void {
    const waiting = this.#waitingGroup.length
    if (this.#gathering.isInFlight && this.node!.inFlightBytes === 0) this.#gathering.allSettled(waiting, this.clockMs)
    if (this.#isGathering && this.#gathering.pause(waiting, this.clockMs) === null) {
      this.#isGathering = false
      this.#offerGroup(this.#waitingGroup)
    }
  }

  #answer({ version, answer }: Waiting): void {
    const node = this.node!
    if (!node.mayAnswer(this.clockMs)) return answer(null)
    this.#world.onAnswer(this, node.epoch)
    answer({ epoch: node.epoch, version })
  }

  #tick(): void {
    if (this.node === null || this.isStopped) return
    this.node.tick(this.clockMs)
    this.#settle()
  }

  #setTimer(): void {
    const dueMs = Math.max(0, (this.node!.dueMs - this.clockMs) / this.taste.clockRate)
    if (dueMs === Infinity) return
    const atMs = this.#world.nowMs() + dueMs + 0.001
    if (this.#wakeMs <= atMs && this.#wakeMs > this.#world.nowMs()) return // it wakes earlier, and then sets the timer again
    this.#wakeMs = atMs
    const { life } = this
    this.#world.after(dueMs + 0.001, () => {
      if (life !== this.life) return
      this.#wakeMs = Infinity
      this.#tick()
    })
  }
}
