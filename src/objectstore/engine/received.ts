import type { BodyDigest } from '../bodies/body-digests.ts'
import type { ReceivedBody } from '../operations.ts'
import type { Content } from './frames.ts'

/** What of a body is in the log, or on its way there. */
interface KeptBody {
  /** @throws S3Error */
  demandWhole(): void
  close(): void
}

/** A body that is whole: its content goes into one change, or it is abandoned. */
export class Received implements ReceivedBody {
  readonly digest: BodyDigest
  readonly #content: Content
  readonly #large: KeptBody | null
  #giveBack: (() => void) | null

  /** @param giveBack called when the content stands in the log */
  constructor(digest: BodyDigest, content: Content, large: KeptBody | null, giveBack: (() => void) | null = null) {
    this.digest = digest
    this.#content = content
    this.#large = large
    this.#giveBack = giveBack
  }

  get content(): Content {
    return this.#content
  }

  /** Just before the frame that commits it is appended. @throws S3Error InternalError when some of it was lost (B3) */
  demandWhole(): void {
    this.#large?.demandWhole()
  }

  /** Its frame was taken: the content is not asked for any more. */
  taken(): void {
    this.#giveBack?.()
    this.#giveBack = null
  }

  abandon(): void {
    this.#large?.close()
  }

  /** When the change that commits the body is settled, the content belongs to the change, or is given up. */
  abandonAfter<Reply>(change: Promise<Reply>): Promise<Reply> {
    return this.#large === null ? change : change.finally(() => this.abandon())
  }
}
