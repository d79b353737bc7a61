/** Frames that were cut from the end of the log (`src/log/set-aside.ts`), until it is known whether the cluster has the same ones. */
import { decodeFrameHeader, emptyFrameHeader, frameBytes } from '../../../native-free-codecs/frame.ts'
import type { Aside } from '../../log/set-aside.ts'
import type { LogPlace } from '../message.ts'

export class PendingAsides {
  readonly #logger: { warn(details: object, message: string): void }
  #waiting: readonly Aside[] = []

  constructor(logger: { warn(details: object, message: string): void }) {
    this.#logger = logger
  }

  /** Replaces one with the same path, which is part of it. */
  add(aside: Aside): void {
    this.#waiting = [...this.#waiting.filter(({ path }) => path !== aside.path), aside]
  }

  /** @param frames that the cluster has: verified, back to back */
  compareAll(frames: Buffer): void {
    const header = emptyFrameHeader()
    for (let at = 0; at < frames.byteLength && this.#waiting.length > 0;) {
      decodeFrameHeader(frames, at, header)
      const bytes = frameBytes(header.payloadBytes)
      this.#compare({ position: header.position + bytes, chain: header.headerCrc })
      at += bytes
    }
  }

  /** A frame of the cluster ends there. */
  #compare({ position, chain }: LogPlace): void {
    this.#waiting = this.#waiting.filter((aside) => {
      const found = aside.compare(position, chain)
      if (found === 'other') {
        const { path, from, to } = aside
        this.#logger.warn(
          { path, from, to },
          'frames that the cluster never confirmed were cut from the end of the log and are kept beside it',
        )
      }
      return found === 'waiting'
    })
  }
}
