/**
 * A cluster of real logs in a simulated world. Each node has the log, journal, appender, membership and lane of a real process, on simulated
 * files that lose what was not synced. `cluster-life.ts` simulates only the protocol, with far more seeds.
 *
 * W1  in the end, every acknowledged write is once in the log of every node, and all logs are equal
 * W2  no client reads less than any client was told before the read began
 * W3  a segment that was reported to a service as sealed never changes, whatever is cut
 */
import assert from 'node:assert/strict'
import { ClusterMember } from '../../src/cluster/member/member.ts'
import type { MemberParts } from '../../src/cluster/member/parts.ts'
import { followingInSlices } from '../../src/cluster-membership.ts'
import { Appender } from '../../src/engine/appender.ts'
import type { Log } from '../../src/log/log.ts'
import { World, replay } from '../support/log-harness.ts'
import { mulberry32 } from '../support/sim-files.ts'
import { nextTurn } from '../support/next-turn.ts'
import { SimulatedStream } from './cluster-stream.ts'
import { SimulatedLane } from './simulated-lane.ts'

const LEASE_MS = 500
const ID_BYTES = 8
/** Frames have different lengths, so the next leader's frame may fit where the last leader began a new segment. */
const PADDING_BYTES_MAX = 1200
const STEP_MS = 2
const ASK_MS = 15
const TIMERS_MS = 250
const TROUBLE_MS = 900
const TROUBLED_MS = 12_000
const HEALED_MS = 12_000

interface Event {
  readonly atMs: number
  readonly run: () => void
}

export class ClusterOfLogs {
  nowMs = 0
  readonly counts = new Map<string, number>()
  readonly acknowledged = new Set<number>()
  readonly random: () => number
  readonly stream: SimulatedStream<Uint8Array>
  told = 0
  readonly #nodes: readonly LogNode[]
  #events: Event[] = []
  #lastId = 0

  constructor(seed: number) {
    this.random = mulberry32(Math.imul(seed, 0x9e3779b1))
    this.stream = new SimulatedStream<Uint8Array>(
      { random: this.random, after: this.after },
      { agreeMs: 1, staleShare: 0.05, refusesEarly: this.random() < 0.5, kept: Infinity },
    )
    const ack = this.random() < 0.5 ? 'cluster' : 'cluster-only'
    this.#nodes = [1, 2].map((number) => new LogNode(this, `node-${number}`, Math.imul(seed, 31) + number, ack))
    this.stream.onStored = () => this.#nodes.forEach((node) => node.pump())
  }

  readonly after = (delayMs: number, run: () => void): void => {
    const atMs = this.nowMs + delayMs
    let at = this.#events.length
    while (at > 0 && this.#events[at - 1]!.atMs > atMs) at -= 1
    this.#events.splice(at, 0, { atMs, run })
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
  }

  get isHealed(): boolean {
    return this.nowMs >= TROUBLED_MS
  }

  async run(): Promise<void> {
    for (const node of this.#nodes) void node.start()
    this.after(0, () => this.#ask())
    this.after(TROUBLE_MS, () => this.#trouble())
    for (
      let event = this.#events.shift();
      event && event.atMs <= TROUBLED_MS + HEALED_MS;
      event = this.#events.shift()
    ) {
      this.nowMs = event.atMs
      event.run()
      await nextTurn()
      for (const node of this.#nodes) if (node.failure !== null) throw node.failure
    }
    this.#check()
  }

  #ask(): void {
    this.after(ASK_MS * this.random(), () => this.#ask())
    if (this.nowMs > TROUBLED_MS + HEALED_MS / 2) return // requests on their way still end
    const node = this.#nodes[Math.floor(this.random() * this.#nodes.length)]!
    if (this.random() < 0.3) return node.read()
    this.#lastId += 1
    node.write(this.#lastId)
  }

  #trouble(): void {
    if (this.isHealed) return this.#nodes.forEach((node) => node.heal())
    this.after(TROUBLE_MS * 2 * this.random(), () => this.#trouble())
    const node = this.#nodes[Math.floor(this.random() * this.#nodes.length)]!
    const kinds = ['crash', 'kill', 'stop', 'elect', 'journal', 'lane', 'hand over'] as const
    const kind = kinds[Math.floor(this.random() * kinds.length)]!
    this.count(kind)
    if (kind === 'elect') return this.stream.elect(this.random() * 1500)
    node.suffer(kind)
  }

  #check(): void {
    const [first, ...others] = this.#nodes.map((node) => node.ids)
    for (const ids of others) assert.deepEqual(ids, first, 'all nodes have the same')
    assert.equal(new Set(first).size, first!.length, 'nothing is there twice')
    const there = new Set(first)
    for (const id of this.acknowledged) assert.ok(there.has(id), `${id} was acknowledged`)
    assert.ok(this.counts.get('answered after trouble') ?? 0, 'the cluster goes on')
  }
}

class LogNode {
  failure: unknown = null
  readonly #cluster: ClusterOfLogs
  readonly #name: string
  readonly #ack: 'cluster' | 'cluster-only'
  readonly #world: World
  /** W3: end of each sealed segment, by its base. */
  readonly #sealed = new Map<number, number>()
  /** Number of the process: calls for earlier processes are dropped. */
  #life = 0
  #isStopped = false
  #backlog: (() => void)[] = []
  #member: ClusterMember | null = null
  #log: Log | null = null
  #appender: Appender | null = null
  #state: number[] = []
  #lane: SimulatedLane | null = null

  constructor(cluster: ClusterOfLogs, name: string, seed: number, ack: 'cluster' | 'cluster-only') {
    this.#cluster = cluster
    this.#name = name
    this.#ack = ack
    this.#world = new World({ seed })
  }

  get ids(): readonly number[] {
    return this.#state
  }

  async start(): Promise<void> {
    this.#life += 1
    const life = this.#life
    const cluster = this.#cluster
    const member = new ClusterMember(this.#parts())
    this.#member = member
    this.#state = []
    this.#every(life, STEP_MS, () => this.#step())
    this.#every(life, TIMERS_MS, () => this.#world.timers.forEach((run) => run()))
    const log = await member.openLog((options) => this.#world.open({ cluster: options }))
    if (life !== this.#life) return
    this.#log = log
    this.#checkSealed()
    log.onSealed(({ base, end }) => this.#sealed.set(base, end))
    this.#read()
    this.#appender = new Appender(log, {
      segmentEnding: () => {},
      onLost: () => {
        cluster.count('read again')
        this.#checkSealed()
        this.#read()
      },
      defer: (run) => this.#later(0, run),
      nowMs: () => 0,
    })
    const take = (frames: Buffer, at: number): number => {
      const taken = this.#appender!.appendCopy(frames, at)
      if (taken > 0) this.#state.push(this.#appender!.payload.readDoubleLE())
      return taken
    }
    member.join({
      follow: followingInSlices(take, {
        sharedMs: () => cluster.nowMs,
        after: (delayMs, run) => this.#later(delayMs, run),
      }),
      readAgain: () => this.#appender!.readAgain(),
      beganToLead: async () => {
        await this.#appender!.settled()
        cluster.count('led')
      },
      steppedDown: () => cluster.count('stepped down'),
    })
  }

  write(id: number): void {
    const appender = this.#appender
    if (!this.#mayAsk() || appender === null) return
    const payloadBytes = ID_BYTES + Math.floor(this.#cluster.random() * PADDING_BYTES_MAX)
    const encode = (target: Buffer, at: number): void => {
      target.fill(0, at, at + payloadBytes)
      target.writeDoubleLE(id, at)
    }
    const settled = (stored: boolean): void => {
      if (!stored || !this.#log!.mayAnswer) return
      this.#cluster.acknowledged.add(id)
      this.#tell(this.#state.indexOf(id) + 1)
    }
    const frame = { type: 1, payloadBytes, durability: 'sync', purpose: 'admit', encode } as const
    if (appender.append(frame, { settled }) !== null) return this.#cluster.count('not taken')
    this.#state.push(id)
  }

  /** W2 */
  read(): void {
    if (!this.#mayAsk() || this.#appender === null) return
    const floor = this.#cluster.told
    const version = this.#state.length
    this.#appender.tellWhenStored({
      settled: (stored) => {
        if (!stored || !this.#log!.mayAnswer) return
        assert.ok(version >= floor, `${this.#name} told ${version}, after ${floor} was told`)
        this.#tell(version)
      },
    })
  }

  suffer(kind: 'crash' | 'kill' | 'stop' | 'journal' | 'lane' | 'hand over'): void {
    const { random, after } = this.#cluster
    if (this.#log === null) return
    if (kind === 'hand over') return this.#member!.handOver(null)
    if (kind === 'journal') return this.#world.lanes[0]?.die()
    if (kind === 'lane') return this.#lane?.die()
    if (kind === 'stop') {
      this.#isStopped = true
      return after(random() * 4 * LEASE_MS, () => this.#resume())
    }
    this.#end(kind)
    after(random() * 4 * LEASE_MS, () => void this.start())
  }

  heal(): void {
    this.#resume()
  }

  pump(): void {
    this.#lane?.pump()
  }

  /** Runs later in this process. While it is stopped, the call waits until it goes on. */
  #later(delayMs: number, run: () => void, life = this.#life): void {
    this.#cluster.after(delayMs, () => this.#do(life, run))
  }

  #do(life: number, run: () => void): void {
    if (life !== this.#life || this.failure !== null) return
    if (this.#isStopped) return void this.#backlog.push(() => this.#do(life, run))
    try {
      run()
    } catch (error) {
      this.failure = error
    }
  }

  #every(life: number, everyMs: number, run: () => void): void {
    this.#later(
      everyMs * (0.5 + this.#cluster.random()),
      () => {
        run()
        this.#every(life, everyMs, run)
      },
      life,
    )
  }

  #step(): void {
    const { random, nowMs } = this.#cluster
    this.#world.nowMs = nowMs
    this.#lane?.step()
    if (random() < 0.5) this.#world.step()
    if (random() < 0.05) for (const lane of this.#world.lanes) lane.idle()
    const problem = this.#member?.problem ?? null
    if (problem !== null) this.failure = new Error(`${this.#name}: ${problem}`)
  }

  #resume(): void {
    this.#isStopped = false
    for (const run of this.#backlog.splice(0)) run()
  }

  #end(how: 'crash' | 'kill'): void {
    this.#life += 1
    this.#isStopped = false
    this.#backlog = []
    this.#lane?.vanish()
    this.#lane = null
    this.#log = null
    this.#appender = null
    this.#member = null
    this.#world.end(how)
  }

  #mayAsk(): boolean {
    return this.#log !== null && !this.#isStopped && this.#member!.view.leads && this.#log.mayAnswer
  }

  #tell(version: number): void {
    this.#cluster.told = Math.max(this.#cluster.told, version)
    this.#cluster.count('answered')
    if (this.#cluster.isHealed) this.#cluster.count('answered after trouble')
  }

  #read(): void {
    const log = this.#log!
    const committed = replay(log, this.#world.files).frames.filter(({ end }) => end <= log.committed)
    this.#state = committed.map(({ payload }) => payload.readDoubleLE())
  }

  /** W3 */
  #checkSealed(): void {
    for (const { base, end, sealed } of this.#log!.segments) {
      const told = this.#sealed.get(base)
      if (told !== undefined) assert.deepEqual([sealed, end], [true, told], `segment ${base} was told to be sealed`)
    }
  }

  #parts(): MemberParts {
    const cluster = this.#cluster
    return {
      settings: {
        servers: [],
        credentials: { kind: 'none' },
        natsTls: null,
        cluster: 'simulated',
        service: 'broker',
        replicas: 3,
        keepBytes: 1 << 20,
        keepMs: null,
        node: this.#name,
        leaseMs: LEASE_MS,
        ack: this.#ack,
        url: null,
        peerUrl: null,
      },
      copy: { completeEarlier: () => {}, run: () => assert.fail('the stream has everything') },
      directory: '/data',
      segmentsName: 'segments',
      arena: null,
      files: this.#world.files,
      logger: { info: () => {}, warn: (_details, message) => cluster.count(message), error: () => {} },
      nowMs: () => cluster.nowMs,
      after: (delayMs, run) => this.#later(delayMs, run),
      startLane: (data, events) => {
        const lane = new SimulatedLane(cluster, this.#world, { data, events, later: this.#laterOfLife() })
        this.#lane = lane
        return lane
      },
    }
  }

  #laterOfLife(): (delayMs: number, run: () => void) => void {
    const life = this.#life
    return (delayMs, run) => this.#later(delayMs, run, life)
  }
}
