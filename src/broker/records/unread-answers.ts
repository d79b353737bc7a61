/**
 * Counts the bytes of long answers that their clients have not read yet. These bytes limit the next answers.
 *
 * U1  the more bytes are held, the shorter are the next pages and claims, down to PAYLOAD_BYTES_MIN or one record. So clients that do not read
 *     cost bounded memory, and others are served meanwhile
 * U2  if even that is too much, because of many clients or long records, pages are refused and nothing is claimed until answers were read.
 *     Records that were asked for before that was known are withheld by the reader. A client that reads nothing is disconnected after a
 *     while (src/http/slow-clients.ts)
 */

import { CLAIM_BYTES_MAX } from '../limits.ts'

/** Bytes of payload in one page. */
export const ANSWER_PAYLOAD_BYTES_MAX = 32 * 1024 * 1024
const PAYLOAD_BYTES_MIN = 64 * 1024
const HELD_BYTES_MAX = 128 * 1024 * 1024
const HELD_BYTES_FULL = 2 * HELD_BYTES_MAX
/** A rendered payload takes twice its length, and the next answer may take half of what is left. */
const HELD_BYTES_PER_PAYLOAD_BYTE = 4

/** U1. @param heldBytes bytes of the answers that were made before */
export function pagePayloadBytesMax(heldBytes: number): number {
  const left = Math.max(0, HELD_BYTES_MAX - heldBytes)
  const fitting = Math.floor(left / HELD_BYTES_PER_PAYLOAD_BYTE)
  return Math.min(ANSWER_PAYLOAD_BYTES_MAX, Math.max(PAYLOAD_BYTES_MIN, fitting))
}

/** U2. @param heldBytes as above */
export const isFullOf = (heldBytes: number): boolean => heldBytes >= HELD_BYTES_FULL

export class UnreadAnswers {
  #heldBytes = 0

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** @returns a function to be called when the answer was read, or its client is gone */
  hold(bytes: number): () => void {
    this.#heldBytes += bytes
    return () => void (this.#heldBytes -= bytes)
  }

  /** U1 */
  get claimBytesMax(): number {
    const payloadBytesMax = pagePayloadBytesMax(this.#heldBytes)
    return payloadBytesMax < ANSWER_PAYLOAD_BYTES_MAX ? payloadBytesMax : CLAIM_BYTES_MAX
  }

  /** U2 */
  get isFull(): boolean {
    return isFullOf(this.#heldBytes)
  }
}
