/** The broker without its surroundings: a log, the state that its frames describe, and the engine that keeps the two in step. Tests simulate the surroundings. */
import assert from 'node:assert/strict'
import { Engine } from '../../engine/engine.ts'
import type { AppendedFrame, FramePlace } from '../../engine/engine.ts'
import type { ReplicationPolicy } from '../../config/replication-binding.ts'
import type { CachedFrames } from '../../log/cached-frames.ts'
import type { Files } from '../../log/files.ts'
import type { Log } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import { BrokerCounters } from '../counters.ts'
import type { Change } from '../frames/change.ts'
import { WAITING_CLAIMS_MAX } from '../limits.ts'
import type { RecordReads } from '../records/record-reads.ts'
import { RecordsInMemory } from '../records/records-in-memory.ts'
import type { SidecarTask } from '../records/segment-index.ts'
import { TOKEN_KEY_BYTES } from '../tokens.ts'
import { Appender } from '../../engine/appender.ts'
import type { CheckpointTask } from '../../engine/checkpoint-thread.ts'
import { Checkpoints } from '../../engine/checkpoints.ts'
import type { StateCopy as CheckpointCopy } from '../../engine/checkpoints.ts'
import { BrokerTime } from '../state/broker-time.ts'
import type { Clocks } from '../state/broker-time.ts'
import { CLOCK_OFFSET_MS_MAX } from './clock-watch.ts'
import { StateCopy } from './checkpoint-content.ts'
import { Core, NOT_STORED } from './core.ts'
import type { Timers } from './core.ts'
import { ReplicationPolicies } from './replication-policies.ts'
import { recoverState } from './recovery.ts'
import { Sidecars } from './sidecars.ts'
import { applyChange } from '../state/apply-change.ts'
import { applyFrame } from '../state/apply-frames.ts'
import type { BrokerState } from '../state/state.ts'
import type { BeginSpan } from '../../spans.ts'
import { atOnce, withoutPauses } from '../../steps.ts'
import type { Pace } from '../../steps.ts'

export interface EngineParts {
  readonly log: Log
  /** Directories of the log, the primary one first: each gets the checkpoints. */
  readonly directories: readonly string[]
  readonly files: Files
  readonly reads: RecordReads
  /** Writes a sidecar, or a part of a checkpoint. */
  readonly write: (task: SidecarTask | CheckpointTask) => Promise<void>
  readonly clock: Clocks & Timers
  readonly logger: Logger
  readonly random: (bytes: Uint8Array) => void
  /** Resolves when other work had its turn on the main thread. */
  readonly turn: () => Promise<void>
  /** Paces the reading of the log while the broker opens. Default: without pauses. */
  readonly pace?: Pace
  /** Calls `run` once, after this turn of the event loop. */
  readonly defer: (run: () => void) => void
  readonly localDisk: 'sync' | 'append'
  readonly writeQuorum: number
  readonly hasReplicas: boolean
  /** Audit events that are older are removed. Null: all are kept. */
  readonly auditMaxAgeMs: number | null
  /** True when an operator wants broker time set to the wall clock, even if the log has a later time. */
  readonly setsClock: boolean
  /** The main thread renders records that are in memory: in the log's ring, and in the page cache if `cached` is not null. Null: threads read all. */
  readonly inMemory: { readonly cached: CachedFrames | null } | null
  /** Their audit streams exist from the start. */
  readonly tenants: readonly string[]
  /** Shows how long work for a request takes. Absent or null: tracing is off. */
  readonly beginSpan?: BeginSpan | null
  /** They decide which streams are shipped to other sites. */
  readonly policies: readonly ReplicationPolicy[]
}

export interface BrokerEngine {
  readonly core: Core
  readonly checkpoints: Checkpoints
  /** In a cluster: this node leads from now on. Resolves when it can take requests. */
  beginToLead(): Promise<void>
  /** Resolves when the sidecars and checkpoints that were begun are written. */
  idle(): Promise<void>
}

/** @throws StoreError and what the file system throws */
export async function openEngine(parts: EngineParts): Promise<BrokerEngine> {
  const { log, directories, files, logger, clock } = parts
  const recovery = { log, directories, files, logger }
  const { write, pace = withoutPauses } = parts
  const recovered = await pace(recoverState(recovery))
  const sidecars = new Sidecars({ log, write, logger })
  const copy = (): CheckpointCopy => copyOf(core.state, parts.turn)
  const checkpoints = new Checkpoints({ ...recovery, write, isWorthwhile: null, copy }, recovered)
  const aheadMs = recovered.state.lastAtMs - clock.wallMs()
  const setsClock = parts.setsClock && aheadMs > CLOCK_OFFSET_MS_MAX
  const time = new BrokerTime(clock, setsClock ? 0 : recovered.state.lastAtMs)
  const appender = new Appender(log, {
    segmentEnding(end) {
      if (log.mayAnswer) core.state.noteTime(time.nowMs()) // so that the copy includes what time has changed
      sidecars.take(core.state, end)
      checkpoints.take(end)
    },
    onLost() {
      sidecars.forget()
      checkpoints.forget()
      const recovered = atOnce(recoverState(recovery))
      sidecars.complete(recovered)
      core.replaceState(recovered.state)
    },
    defer: parts.defer,
    nowMs: () => clock.nowMs(),
  })
  if (parts.inMemory) parts.reads.inMemory = new RecordsInMemory(appender.keepRecent(), parts.inMemory.cached)
  const engine = new Engine<BrokerState, Change>(
    {
      log,
      appender,
      machine: { apply },
      nowMs: () => clock.nowMs(),
      waitingMax: WAITING_CLAIMS_MAX,
      inFlightBytesMax: Infinity,
      beginSpan: parts.beginSpan ?? null,
      defer: parts.defer,
    },
    recovered.state,
  )
  const core: Core = new Core({
    ...parts,
    engine,
    time,
    timers: clock,
    counters: new BrokerCounters(),
    policies: new ReplicationPolicies(parts.policies),
  })
  sidecars.complete(recovered)
  const beginToLead = async (): Promise<void> => {
    time.notBefore(core.state.lastAtMs)
    core.state.makeAllVisible() // the whole log is confirmed
    await begin(core, parts)
  }
  if (log.cluster === null) {
    await begin(core, parts)
    if (setsClock) await setClock(core, parts, -aheadMs)
  }
  return { core, checkpoints, beginToLead, idle: () => sidecars.idle().then(() => checkpoints.idle()) }
}

/** The copy begins at once and is made in slices. A group that changes before its turn is copied before the change (checkpoint-content K2). */
function copyOf(state: BrokerState, turn: () => Promise<void>): CheckpointCopy {
  const parts = new StateCopy(state).finish(turn)
  parts.catch(() => {}) // reported when the checkpoint is written
  return { next: async () => (await parts).shift() ?? null, abandon: () => {} }
}

/**
 * Leases and delays keep what was left of them at the last broker time in the log: none ends early, and the time that the broker was down
 * does not count.
 */
async function setClock(core: Core, { tenants, logger }: EngineParts, shiftMs: number): Promise<void> {
  const [tenant] = tenants
  if (tenant === undefined) return
  const by = { tenant, principal: 'operator' }
  const { before, frame } = core.audited(by, 'finish', (event) => {
    return { kind: 'clock_set', set_to_ms: event.at_ms, shift_ms: shiftMs, ...event }
  })
  const notTaken = core.engine.appendSilently(before)
  if (notTaken !== null) throw NOT_STORED.internal_error(notTaken)
  await core.store({ ...frame, durability: 'sync' }, 'internal_error')
  logger.warn(
    { shift_ms: shiftMs },
    'broker time was set to the wall clock; leases and delays keep their remaining time',
  )
}

/** Stores what every log has before anything else: the key of delivery ids, and the audit streams. */
async function begin(core: Core, { random, tenants }: EngineParts): Promise<void> {
  if (core.state.secret.byteLength === 0) {
    const secret = new Uint8Array(TOKEN_KEY_BYTES)
    random(secret)
    const init = { kind: 'init', secret: Buffer.from(secret).toString('hex'), at_ms: core.time.wallMs() } as const
    await core.store(core.changeFrame(init, 'admit'), 'internal_error')
  }
  for (const tenant of tenants) {
    const audit = core.auditStream(tenant)
    if (audit instanceof Error) throw NOT_STORED.internal_error(audit)
  }
  await core.appender.settled()
}

function apply(state: BrokerState, frame: AppendedFrame<Change>, at: FramePlace): void {
  const isKnown = frame.change ? applyChange(state, frame.change, at) : applyFrame(state, frame, at)
  assert(isKnown, 'a frame is about what is there')
}
