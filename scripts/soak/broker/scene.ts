/** What all actors that work on the broker share: the ledgers, and the way to the broker. */
import assert from 'node:assert/strict'
import { AuditLedger } from './audit-ledger.ts'
import { Client, Traffic } from './client.ts'
import type { ClientOptions } from './client.ts'
import type { Failures } from '../crew.ts'
import { CursorLedger } from './cursor-ledger.ts'
import { Gate } from '../gate.ts'
import { GroupLedger } from './group-ledger.ts'
import { DEAD_STREAMS, WORK_STREAMS, inQuorum } from './plan.ts'
import { StreamLedger } from './stream-ledger.ts'

const CURSORS_PER_GROUP = 2
const LIFE_PREFIX = 'life.'

/** Name of a stream that has a keeper: it comes and goes. */
export const lifeName = (n: number): string => `${LIFE_PREFIX}${n}`
export const isLifeName = (stream: string): boolean => stream.startsWith(LIFE_PREFIX)

/** A client that knows whether it waits for an answer. */
interface Asking {
  readonly isBusy: boolean
  abandon(): void
}

export interface SceneOptions {
  readonly authority: () => string
  /** The log is in several directories: some streams ask for a quorum of them. */
  readonly replicated: boolean
  /** Records are published in durable classes only: what is only written may be lost. */
  readonly onlyDurable: boolean
}

export class Scene {
  readonly onlyDurable: boolean
  readonly gate = new Gate()
  readonly traffic = new Traffic()
  failures: Failures = 'forbidden'
  readonly workStreams: readonly StreamLedger[]
  readonly deadStreams: readonly StreamLedger[]
  readonly groups: readonly GroupLedger[]
  readonly cursors: readonly CursorLedger[]
  readonly audit = new AuditLedger((stream, group) => this.group(stream, group), isLifeName)
  /** Names of streams that were created while the load was on, and no actor publishes to. */
  readonly extraStreams = new Set<string>()
  readonly #clients: Asking[] = []
  readonly #authority: () => string
  readonly #clientOptions: Omit<ClientOptions, 'gate'>

  constructor({ authority, replicated, onlyDurable }: SceneOptions) {
    this.onlyDurable = onlyDurable
    this.#authority = authority
    this.#clientOptions = { authority, traffic: this.traffic, failures: () => this.failures }
    const plans = replicated ? WORK_STREAMS.map((plan, i) => (i % 2 === 0 ? inQuorum(plan) : plan)) : WORK_STREAMS
    this.workStreams = plans.map((plan) => new StreamLedger(plan))
    this.deadStreams = DEAD_STREAMS.map((plan) => new StreamLedger(plan))
    this.groups = this.workStreams.flatMap((stream) => stream.plan.groups.map((name) => new GroupLedger(stream, name)))
    this.cursors = this.groups.flatMap((group) =>
      Array.from({ length: CURSORS_PER_GROUP }, (_, n) => new CursorLedger(group, `cursor-${n}`)),
    )
  }

  get streams(): readonly StreamLedger[] {
    return [...this.workStreams, ...this.deadStreams]
  }

  stream(name: string): StreamLedger {
    const stream = this.streams.find((each) => each.name === name)
    assert(stream, `the soak has no stream ${name}`)
    return stream
  }

  group(stream: string, name: string): GroupLedger {
    const group = this.groups.find((each) => each.stream.name === stream && each.name === name)
    assert(group, `the soak has no group ${name} of ${stream}`)
    return group
  }

  groupsOf(stream: StreamLedger): readonly GroupLedger[] {
    return this.groups.filter((group) => group.stream === stream)
  }

  /** A client that waits while the gate is closed. */
  newClient(): Client {
    const client = new Client({ ...this.#clientOptions, gate: this.gate })
    this.#clients.push(client)
    return client
  }

  /** Adds a client that asks over a connection of another kind, and waits while the gate is closed. */
  watch(client: Asking): void {
    this.#clients.push(client)
  }

  /** host:port of the process that runs now. */
  get authority(): string {
    return this.#authority()
  }

  /** A client for checks, which work while the actors wait. */
  newInspector(): Client {
    return new Client({ ...this.#clientOptions, gate: new Gate() })
  }

  /** Whether no client waits for an answer, apart from inspectors. */
  get isQuiet(): boolean {
    return this.#clients.every(({ isBusy }) => !isBusy)
  }

  abandon(): void {
    for (const client of this.#clients) client.abandon()
    this.gate.open()
  }
}
