/** Records every frame that an object store appends, and applies it to the reference. */
import assert from 'node:assert/strict'
import { FrameTrace } from '../../support/frame-trace.ts'
import type { CauseOf, TracedFrame as Traced } from '../../support/frame-trace.ts'
import { Reference } from './reference.ts'
import type { StoreWorld } from './world.ts'

/** The operation for which a frame was appended. */
interface Purpose {
  readonly kind: string
}

export type Cause = CauseOf<Purpose>
export type TracedFrame = Traced<Purpose>

export class Trace extends FrameTrace<Purpose, Reference> {
  /** Called before a frame is applied to the reference. */
  judge: (frame: TracedFrame) => void = () => {}
  /** Called when the reference has changed. */
  changed: () => void = () => {}
  readonly #world: StoreWorld

  constructor(world: StoreWorld) {
    super(world)
    this.#world = world
  }

  /** Follows the store that was just opened. */
  attach(certain = 0): void {
    this.follow(this.#world.core.engine, certain)
  }

  protected override onLost(): void {
    super.onLost()
    this.changed()
  }

  protected override onAppended(
    ...[appended, cause]: Parameters<FrameTrace<Purpose, Reference>['onAppended']>
  ): TracedFrame {
    const frame = super.onAppended(appended, cause)
    this.attempt(() => {
      this.judge(frame)
      this.reference.apply(frame)
    })
    this.changed()
    return frame
  }

  protected referenceOf(frames: readonly TracedFrame[]): Reference {
    const reference = new Reference()
    for (const frame of frames) reference.apply(frame)
    return reference
  }

  /** In the log, bytes of bodies follow the encoded part of a frame. */
  protected holds(found: Buffer, appended: Buffer): boolean {
    return found.subarray(0, appended.byteLength).equals(appended)
  }

  protected assertAppendedByStart(frames: readonly Pick<TracedFrame, 'position'>[]): void {
    assert.deepEqual(frames, [], 'a start appends nothing')
  }

  protected assertMayBeLost(frames: readonly TracedFrame[]): void {
    assert.ok(
      frames.every(({ wasStored }) => !wasStored),
      'what was stored is never lost',
    )
  }
}
