/**
 * Records every frame that a broker appends, and applies it to the reference. Where a frame does not say what the client asked for, `Intent`
 * tells the reference.
 */
import assert from 'node:assert/strict'
import type { BrokerWorld } from '../../support/broker-world.ts'
import { FrameTrace } from '../../support/frame-trace.ts'
import type { CauseOf, TracedFrame as Traced } from '../../support/frame-trace.ts'
import { Reference } from './reference.ts'
import type { Intent } from './reference-streams.ts'

export type Cause = CauseOf<Intent>
export type TracedFrame = Traced<Intent>

export class Trace extends FrameTrace<Intent, Reference> {
  /** Finds the request of a claim that had waited: it is served when another operation's frame is stored. */
  claimsAsked: NonNullable<Intent['claim']> = () => undefined
  /** Called when the reference has changed. */
  changed: (isLoss: boolean) => void = () => {}
  readonly #world: BrokerWorld

  constructor(world: BrokerWorld) {
    super(world)
    this.#world = world
  }

  /** Follows the broker that was just opened. */
  attach(certain = 0): void {
    this.follow(this.#world.core.engine, certain)
  }

  protected override onAppended(
    ...[appended, cause]: Parameters<FrameTrace<Intent, Reference>['onAppended']>
  ): TracedFrame {
    const frame = super.onAppended(appended, cause)
    this.attempt(() => this.reference.apply(frame, { claim: this.claimsAsked, ...frame.cause }))
    this.attempt(() => this.changed(false))
    return frame
  }

  protected override onLost(): void {
    super.onLost()
    this.attempt(() => this.changed(true))
  }

  protected referenceOf(frames: readonly TracedFrame[]): Reference {
    const reference = new Reference()
    for (const frame of frames) {
      reference.apply(frame, { retryDelayMs: frame.cause?.retryDelayMs })
      reference.stored(frame)
    }
    reference.everythingStored()
    return reference
  }

  protected holds(found: Buffer, appended: Buffer): boolean {
    return found.equals(appended)
  }

  /** Any frames are allowed: a start sets broker time, and handles what is overdue. */
  protected assertAppendedByStart(): void {}

  protected assertMayBeLost(frames: readonly TracedFrame[]): void {
    assert.ok(frames.length > 0)
  }

  protected override onStored(frame: TracedFrame): void {
    super.onStored(frame)
    this.attempt(() => this.reference.stored(frame))
  }
}
