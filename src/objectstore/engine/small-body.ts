/** A body that is held in memory and digested with others of its turn: it goes into the frame that commits it. */
import type { BodyDigest, DigestPlan } from '../bodies/body-digests.ts'
import type { WholeDigests } from '../bodies/whole-digests.ts'
import type { BodyTarget, BodyWriter, ReceivedBody } from '../operations.ts'
import { Received } from './received.ts'
import type { SharedCopies, SharedCopy } from './shared-copies.ts'

export const INLINE_BYTES_MAX = 64 * 1024

/** What it needs of `Bodies`. */
interface SmallBodies {
  readonly small: WholeDigests
  readonly copies: SharedCopies
  large(plan: DigestPlan, target: BodyTarget): BodyWriter
}

export class SmallBody implements BodyWriter {
  readonly #bodies: SmallBodies
  readonly #lengthBytes: number | null
  readonly #plan: DigestPlan
  readonly #target: BodyTarget
  /** Copy of a body that came in one piece. */
  #copy: SharedCopy | null = null
  #pieces: Buffer[] = []
  #bytes = 0
  /** The large body that it became, when it turned out not to be small. */
  #large: BodyWriter | null = null
  #onDrain: () => void = () => {}

  constructor(bodies: SmallBodies, lengthBytes: number | null, plan: DigestPlan, target: BodyTarget) {
    this.#bodies = bodies
    this.#lengthBytes = lengthBytes
    this.#plan = plan
    this.#target = target
  }

  write(bytes: Uint8Array): boolean {
    if (this.#large !== null) return this.#large.write(bytes)
    this.#bytes += bytes.byteLength
    if (this.#bytes <= INLINE_BYTES_MAX) {
      const isWhole = bytes.byteLength === this.#lengthBytes && this.#copy === null
      if (isWhole) this.#copy = this.#bodies.copies.copyOf(bytes)
      this.#pieces.push(isWhole ? this.#copy!.bytes : Buffer.from(bytes)) // made just now
      return true
    }
    const large = this.#bodies.large(this.#plan, this.#target)
    this.#large = large
    large.onDrain(() => this.#onDrain())
    for (const piece of this.#pieces) large.write(piece)
    this.#pieces = []
    return large.write(bytes)
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener
  }

  finish(received: (body: ReceivedBody) => void, failed: (error: unknown) => void): void {
    if (this.#large !== null) return this.#large.finish(received, failed)
    const inline = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
    const release = this.#releaseOf(inline)
    const digested = (digest: BodyDigest): void => received(new Received(digest, { inline }, null, release))
    this.#bodies.small.of(this.#plan, inline, digested, failed)
  }

  /** What to call when the content was written; null: there is nothing to give back. */
  #releaseOf(inline: Buffer): (() => void) | null {
    const copy = this.#copy
    return copy === null || copy.bytes !== inline ? null : () => this.#bodies.copies.release(copy)
  }

  abandon(): void {
    this.#large?.abandon()
    this.#pieces = []
  }
}
