import type { Answer } from '../../engine/decision.ts'
import type { BodyDigest } from '../bodies/body-digests.ts'
import type { ReceivedBody } from '../operations.ts'
import type { Content } from './frames.ts'

/** The part of a body that is in the log, or on its way there. */
interface KeptBody {
  /** @param position of the frame that commits it */
  stored(position: number): void
  /** Why it is not whole; null: it is. */
  readonly failure: Error | null
  close(): void
}

/** A body that is whole: its content goes into one change, or it is abandoned. */
export class Received implements ReceivedBody {
  readonly digest: BodyDigest
  readonly #content: Content
  readonly #large: KeptBody | null
  #release: (() => void) | null

  /** @param release called when the content stands in the log */
  constructor(digest: BodyDigest, content: Content, large: KeptBody | null, release: (() => void) | null = null) {
    this.digest = digest
    this.#content = content
    this.#large = large
    this.#release = release
  }

  /** True when the body does not stand in the frame that commits it. */
  get isLarge(): boolean {
    return this.#large !== null
  }

  get content(): Content {
    return this.#content
  }

  /** Why nothing may commit it: some of it was lost (bodies.ts B3). Null: all of it is there. */
  get failure(): Error | null {
    return this.#large === null ? null : this.#large.failure
  }

  /** Its frame was taken: the content is not asked for any more. */
  taken(): void {
    this.#release?.()
    this.#release = null
  }

  /** The frame that commits it is stored. */
  stored(position: number): void {
    this.#large?.stored(position)
  }

  abandon(): void {
    this.#large?.close()
  }

  /** An answer that also closes the body: when it is given, the content belongs to the change, or is given up. */
  abandonAfter<Reply>(answer: Answer<Reply>): Answer<Reply> {
    if (this.#large === null) return answer
    return {
      answered: (reply) => {
        this.abandon()
        answer.answered(reply)
      },
      refused: (error) => {
        this.abandon()
        answer.refused(error)
      },
    }
  }
}
