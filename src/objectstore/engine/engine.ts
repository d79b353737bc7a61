/** The object store without its surroundings: a log, the state that its frames make, and the code that keeps both together. Tests bring a simulated world. */
import { Engine } from '../../engine/engine.ts'
import type { AppendedFrame, FramePlace } from '../../engine/engine.ts'
import { Appender } from '../../engine/appender.ts'
import type { CheckpointTask } from '../../engine/checkpoint-thread.ts'
import { Checkpoints } from '../../engine/checkpoints.ts'
import type { Files } from '../../log/files.ts'
import type { Log } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import type { BeginSpan } from '../../spans.ts'
import type { Arena } from '../../pipeline/arena.ts'
import type { StoreCounters } from '../counters.ts'
import { applyFrame } from './apply-frame.ts'
import { CheckpointPlan } from './checkpoint-plan.ts'
import { Cleaner } from './cleaner.ts'
import { Core } from './core.ts'
import type { StoreClock } from './core.ts'
import type { DigestLanes } from '../bodies/digest-lanes.ts'
import type { FrameReads } from './frame-reads.ts'
import type { Change } from './frames.ts'
import { Objects } from './objects.ts'
import { RunReads } from './run-reads.ts'
import { recoverState } from './recovery.ts'
import type { Recovered } from './recovery.ts'
import { atOnce } from '../../steps.ts'
import type { Steps } from '../../steps.ts'
import type { ScanTask, ScannedPart } from './scan-segment.ts'
import type { StoreState } from './state.ts'
import { Store } from './store.ts'

export interface EngineParts {
  readonly log: Log
  /** Directory of the log, where checkpoints are written, too. */
  readonly directory: string
  readonly files: Files
  readonly reads: FrameReads
  readonly write: (task: CheckpointTask) => Promise<void>
  readonly scan: (task: ScanTask) => Promise<ScannedPart>
  readonly digests: DigestLanes
  readonly arena: Arena
  readonly clock: StoreClock
  readonly logger: Logger
  readonly counters: StoreCounters
  readonly random: (bytes: Uint8Array) => void
  /** Calls `run` once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
  readonly segmentBytes: number
  /** Memory of pieces of large bodies that were read or written. */
  readonly readCacheBytes: number
  /** Memory of small objects that were read. */
  readonly objectCacheBytes: number
  readonly uploadTtlMs: number
  /** Shows how long work for a request takes. Absent or null: tracing is off. */
  readonly beginSpan?: BeginSpan | null
}

export interface StoreEngine {
  readonly core: Core
  readonly store: Store
  readonly checkpoints: Checkpoints
  readonly cleaner: Cleaner
}

type RecoveryOf = Pick<EngineParts, 'log' | 'directory' | 'files' | 'logger'>

/** Reads the state that the engine opens with. @throws StoreError and what the file system throws */
export const recoverEngine = ({ log, directory, files, logger }: RecoveryOf): Steps<Recovered> =>
  recoverState({ log, directories: [directory], files, logger })

/** @param recovered by default it is read at once, and what `recoverEngine` throws is thrown */
export function openEngine(parts: EngineParts, recovered = atOnce(recoverEngine(parts))): StoreEngine {
  const { log, directory, files, logger, write, segmentBytes, uploadTtlMs, scan } = parts
  const recovery = { log, directories: [directory], files, logger }
  const runs = new RunReads(parts.log, parts.reads, parts.readCacheBytes)
  const forget = (position: number): void => runs.forget(position)
  const plan: CheckpointPlan = new CheckpointPlan(() => core.state, recovered)
  const checkpoints = new Checkpoints(
    {
      ...recovery,
      write,
      isWorthwhile: (position, newest) => plan.isWorthwhile(position, newest),
      copy: () => plan.copy(),
    },
    recovered,
  )
  const appender = new Appender(log, {
    segmentEnding(end) {
      plan.segmentEnded()
      checkpoints.take(end)
    },
    onLost() {
      checkpoints.forget()
      const { state } = atOnce(recoverState(recovery))
      state.onReplaced = forget
      engine.replaceState(state)
    },
    defer: parts.defer,
    nowMs: () => parts.clock.nowMs(),
  })
  const engine: Engine<StoreState, Change> = new Engine(
    {
      log,
      appender,
      machine: { apply },
      nowMs: () => parts.clock.nowMs(),
      waitingMax: 0,
      inFlightBytesMax: appender.payloadBytesMax,
      beginSpan: parts.beginSpan ?? null,
      defer: parts.defer,
    },
    recovered.state,
  )
  const core: Core = new Core({ ...parts, engine })
  recovered.state.onReplaced = forget
  const store = new Store(
    core,
    new Objects({
      reads: parts.reads,
      runs,
      counters: parts.counters,
      cacheBytes: parts.objectCacheBytes,
    }),
  )
  const cleaner = new Cleaner({ core, store, checkpoints, plan, segmentBytes, uploadTtlMs, scan })
  return { core, store, checkpoints, cleaner }
}

function apply(state: StoreState, { type, payload, change }: AppendedFrame<Change>, { position }: FramePlace): void {
  if (change) state.applyChange(change, position)
  else applyFrame(state, { type, position, payload })
}
