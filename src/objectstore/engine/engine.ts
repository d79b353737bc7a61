/** The object store without its surroundings: a log, the state that its frames say, and who keeps the two together. Tests bring a simulated world. */
import { Engine } from '../../engine/engine.ts'
import type { AppendedFrame, FramePlace } from '../../engine/engine.ts'
import { Appender } from '../../engine/appender.ts'
import type { Files } from '../../log/files.ts'
import type { Log } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import type { Arena } from '../../pipeline/arena.ts'
import type { StoreCounters } from '../counters.ts'
import { applyFrame } from './apply-frame.ts'
import { Checkpoints } from './checkpoints.ts'
import { Cleaner } from './cleaner.ts'
import { Core } from './core.ts'
import type { StoreClock } from './core.ts'
import type { DigestLanes } from '../bodies/digest-lanes.ts'
import type { FrameReads } from './frame-reads.ts'
import type { Change } from './frames.ts'
import { Objects } from './objects.ts'
import { RunReads } from './run-reads.ts'
import { recoverState } from './recovery.ts'
import type { ScanTask, ScannedSegment } from './scan-segment.ts'
import type { StoreState } from './state.ts'
import { Store } from './store.ts'
import type { WriteTask } from './write-task.ts'

export interface EngineParts {
  readonly log: Log
  /** Of the log: it gets the checkpoints. */
  readonly directory: string
  readonly files: Files
  readonly reads: FrameReads
  readonly write: (task: WriteTask) => Promise<void>
  readonly scan: (task: ScanTask) => Promise<ScannedSegment>
  readonly digests: DigestLanes
  readonly arena: Arena
  readonly clock: StoreClock
  readonly logger: Logger
  readonly counters: StoreCounters
  readonly random: (bytes: Uint8Array) => void
  /** Calls once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
  readonly segmentBytes: number
  readonly uploadTtlMs: number
}

export interface StoreEngine {
  readonly core: Core
  readonly store: Store
  readonly checkpoints: Checkpoints
  readonly cleaner: Cleaner
}

/** @throws StoreError and what the file system throws */
export function openEngine(parts: EngineParts): StoreEngine {
  const { log, directory, files, logger, segmentBytes, uploadTtlMs, scan } = parts
  const recovered = recoverState(log, directory, files, logger)
  const checkpoints: Checkpoints = new Checkpoints(
    { log, directory, write: parts.write, logger, state: () => core.state },
    recovered,
  )
  const appender = new Appender(log, {
    segmentEnding: (end) => checkpoints.take(end),
    onLost: () => {
      checkpoints.forget()
      engine.replaceState(recoverState(log, directory, files, logger).state)
    },
    defer: parts.defer,
  })
  const engine: Engine<StoreState, Change> = new Engine(
    {
      log,
      appender,
      machine: { apply },
      nowMs: () => parts.clock.nowMs(),
      waitingMax: 0,
      inFlightBytesMax: appender.payloadBytesMax,
      defer: parts.defer,
    },
    recovered.state,
  )
  const core: Core = new Core({ ...parts, engine })
  const store = new Store(core, new Objects(parts.reads, new RunReads(parts.log, parts.reads), parts.counters))
  const cleaner = new Cleaner({ core, store, checkpoints, segmentBytes, uploadTtlMs, scan })
  return { core, store, checkpoints, cleaner }
}

function apply(state: StoreState, { type, payload, change }: AppendedFrame<Change>, { position }: FramePlace): void {
  if (change) state.applyChange(change)
  else applyFrame(state, { type, position, payload })
}
