/**
 * Enforces retention in the background. It raises the floors of streams, each with a frame. Then it drops segments that hold nothing of any
 * stream, once a checkpoint covers them. When too much of the log is garbage (engine/cleaning.ts), it moves the live records out of the
 * oldest segment first. If only a missing checkpoint keeps a segment, it has one written.
 */
import type { Checkpoints } from '../../engine/checkpoints.ts'
import { Cleaning } from '../../engine/cleaning.ts'
import type { Upkeep } from '../../engine/upkeep.ts'
import { Rounds } from '../../pipeline/rounds.ts'
import type { SegmentInfo } from '../../log/log.ts'
import { SYNCED } from './core.ts'
import type { Core } from './core.ts'
import { liveBytesOf, moveOut } from './relocation.ts'
import { cursorFloorOf, hasLimits, planRetention } from './retention-plan.ts'
import type { StreamState } from '../state/state.ts'

const NO_OVERRIDES = { maxAgeMs: null, maxBytes: null }

export class Retainer implements Upkeep {
  readonly #core: Core
  readonly #checkpoints: Checkpoints
  readonly #cleaning: Cleaning
  readonly #rounds = new Rounds((signal) => this.#round(signal))
  #areFloorsDue = false

  constructor(core: Core, checkpoints: Checkpoints, segmentBytes: number) {
    this.#core = core
    this.#checkpoints = checkpoints
    this.#cleaning = new Cleaning(core.log, segmentBytes)
  }

  /** Runs one round; does nothing while another one is under way. */
  enforce(): Promise<void> {
    this.#areFloorsDue = true
    return this.#rounds.run()
  }

  /** A round without the floors of streams: looking at them takes longer, the more streams there are. */
  reclaim(): Promise<void> {
    return this.#rounds.run()
  }

  /** Ends the round under way early, and resolves when it has ended. */
  close(): Promise<void> {
    return this.#rounds.close()
  }

  async #round(signal: AbortSignal): Promise<void> {
    try {
      const { log } = this.#core
      if (this.#areFloorsDue && log.mayAnswer) await this.#raiseFloors(signal)
      await this.#dropSegments()
      if (log.mayAnswer) await this.#clean(signal)
    } catch (error) {
      this.#core.logger.warn({ reason: String(error) }, 'retention could not be enforced, and is tried again')
    }
  }

  async #raiseFloors(signal: AbortSignal): Promise<void> {
    this.#areFloorsDue = false
    const core = this.#core
    const failures: unknown[] = []
    for (const stream of core.state.streams) {
      if (signal.aborted) break
      if (!stream || !hasLimits(core, stream)) continue
      try {
        await this.#raiseFloor(stream)
      } catch (error) {
        failures.push(error) // other streams may not need what this one lacks
      }
    }
    if (failures.length === 0) return
    const details = { streams: failures.length, reason: String(failures[0]) }
    core.logger.warn(details, 'retention could not be enforced for some streams, and is tried again')
  }

  async #raiseFloor(stream: StreamState): Promise<void> {
    const core = this.#core
    const { config, floor } = stream
    const { plannedFloor } = await planRetention(core, stream, NO_OVERRIDES)
    if (plannedFloor <= floor) return
    const removedBytes = await core.reads.payloadBytesBetween(stream.index, floor, plannedFloor)
    const isSame = core.isCurrent(stream) && stream.config === config && stream.floor === floor
    const retainedFrom = Math.min(cursorFloorOf(stream) ?? Infinity, core.policies.retainedFrom(stream))
    if (!isSame || plannedFloor > retainedFrom) return // the next round plans anew
    const retained = {
      kind: 'retained',
      stream_number: stream.number,
      floor: plannedFloor,
      removed_bytes: removedBytes,
      at_ms: core.time.wallMs(),
    } as const
    const frame = { ...core.changeFrame(retained, 'finish'), ...SYNCED }
    const stored = core.store(frame, 'internal_error')
    core.holdAnswersUntilStored(stream)
    await stored
  }

  async #clean(signal: AbortSignal): Promise<void> {
    const core = this.#core
    const cleaning = this.#cleaning
    for (let oldest = this.#dueSegment(); oldest; oldest = this.#dueSegment()) {
      if (!oldest.sealed || oldest.end > this.#checkpoints.position) return this.#demandCheckpoint()
      cleaning.begin(liveBytesOf(core.state))
      await moveOut(core, oldest, cleaning, signal)
      await this.#dropSegments()
      if (core.log.segments[0] === oldest) return cleaning.giveUp() // some of it could not be moved, or the round was ended early
      cleaning.movedTo(oldest.end)
    }
  }

  /** The oldest segment, if cleaning is due. */
  #dueSegment(): SegmentInfo | undefined {
    const { log, state } = this.#core
    const oldest = log.segments[0]
    return oldest && this.#cleaning.isDue(oldest.base, liveBytesOf(state)) ? oldest : undefined
  }

  #demandCheckpoint(): void {
    const { appender } = this.#core
    if (this.#checkpoints.isDue(appender.tail)) appender.rotate()
  }

  /** Frames under way may still be lost, so nothing is dropped because of them before they are stored. */
  async #dropSegments(): Promise<void> {
    const core = this.#core
    let position = this.#checkpoints.position
    for (const stream of core.state.streams) position = Math.min(position, stream?.index.oldestSegment ?? Infinity)
    if (core.appender.inFlight > 0) await core.appender.settled()
    core.log.dropBefore(position)
  }
}
