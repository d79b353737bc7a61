/**
 * Retention, enforced in the background: the floor of a stream rises, with a frame that says so; then segments that hold nothing of any
 * stream go, once a checkpoint stands for them. When too much of the log is garbage, what lives in its oldest segment is moved first.
 */
import { Rounds } from '../../pipeline/rounds.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { Core } from './core.ts'
import { moveOut, needsCleaning } from './relocation.ts'
import { cursorFloorOf, hasLimits, planRetention } from './retention-plan.ts'
import type { StreamState } from './state.ts'

const NO_OVERRIDES = { maxAgeMs: null, maxBytes: null }

export class Retainer {
  readonly #core: Core
  readonly #checkpoints: Checkpoints
  readonly #segmentBytes: number
  readonly #rounds = new Rounds((signal) => this.#round(signal))

  constructor(core: Core, checkpoints: Checkpoints, segmentBytes: number) {
    this.#core = core
    this.#checkpoints = checkpoints
    this.#segmentBytes = segmentBytes
  }

  /** One round; nothing while the one before is under way. */
  enforce(): Promise<void> {
    return this.#rounds.run()
  }

  /** Resolves when the round under way has ended, which it does before it is done. */
  close(): Promise<void> {
    return this.#rounds.close()
  }

  async #round(signal: AbortSignal): Promise<void> {
    try {
      for (const stream of this.#core.state.streams) {
        if (signal.aborted) return
        if (stream && hasLimits(stream)) await this.#raiseFloor(stream)
      }
      this.#dropSegments()
      await this.#clean(signal)
    } catch (error) {
      this.#core.logger.warn({ reason: String(error) }, 'retention could not be enforced, and is tried again')
    }
  }

  async #raiseFloor(stream: StreamState): Promise<void> {
    const core = this.#core
    const { plannedFloor } = await planRetention(core, stream, NO_OVERRIDES)
    if (plannedFloor <= stream.floor) return
    const removedBytes = await core.reads.payloadBytesBetween(stream.index, stream.floor, plannedFloor)
    if (!core.isCurrent(stream) || plannedFloor > (cursorFloorOf(stream) ?? Infinity)) return // it is planned anew
    const atMs = core.time.nowMs()
    await core.change(
      {
        kind: 'retained',
        stream_number: stream.number,
        floor: plannedFloor,
        removed_bytes: removedBytes,
        at_ms: atMs,
      },
      {
        purpose: 'finish',
        failure: 'internal_error',
        apply: () => {
          core.state.applyRetained(stream, plannedFloor, removedBytes, atMs)
          core.tellLater(stream)
        },
      },
    )
  }

  async #clean(signal: AbortSignal): Promise<void> {
    const { log } = this.#core
    for (
      let oldest = log.segments[0];
      oldest && needsCleaning(this.#core, this.#segmentBytes);
      oldest = log.segments[0]
    ) {
      if (!oldest.sealed || oldest.end > this.#checkpoints.position) return
      await moveOut(this.#core, oldest, this.#segmentBytes, signal)
      this.#dropSegments()
      if (log.segments[0] === oldest) return // something of it could not be moved, or was not any more
    }
  }

  #dropSegments(): void {
    const core = this.#core
    let position = this.#checkpoints.position
    for (const stream of core.state.streams) position = Math.min(position, stream?.index.oldestSegment ?? Infinity)
    core.log.dropBefore(position)
  }
}
