/**
 * Room in the ring of a log, for frames that wait their turn instead of being refused.
 *
 * R1  the bytes under way stay within `bytesMax`; when none are, a frame of any length is let in
 * R2  an operation without room waits, and decides again when there is some. None overtakes another that waits
 */
import { FRAME_HEADER_BYTES } from '../../native-free-codecs/frame.ts'

export interface Entrant {
  /** There is room now: decides, and appends or does without, before any other request. */
  decide(turn: 'again'): void
}

interface Waiting {
  readonly bytes: number
  readonly entrant: Entrant
}

/** What a frame takes of the ring besides its payload. */
const FRAME_ROOM_BYTES = FRAME_HEADER_BYTES + 64

export class Room {
  readonly #bytesMax: number
  #bytes = 0
  #waiting: Waiting[] = []
  /** The entrant whose turn it is (R2). */
  #entering: Entrant | null = null

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** False: the entrant is told to decide again when there is room. */
  admitOrQueue(entrant: Entrant, payloadBytes: number): boolean {
    if (this.#entering === entrant) return true
    if (this.#waiting.length === 0 && this.#fits(payloadBytes)) return true
    this.#waiting.push({ bytes: payloadBytes, entrant })
    return false
  }

  taken(payloadBytes: number): void {
    this.#bytes += payloadBytes + FRAME_ROOM_BYTES
  }

  /** The frame is stored, or lost. */
  release(payloadBytes: number): void {
    this.#bytes -= payloadBytes + FRAME_ROOM_BYTES
  }

  /** R2 */
  admitWaiting(): void {
    if (this.#entering !== null) return
    for (let next = this.#waiting[0]; next && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#entering = next.entrant
      try {
        next.entrant.decide('again')
      } finally {
        this.#entering = null
      }
    }
  }

  /** R1 */
  #fits(payloadBytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + payloadBytes + FRAME_ROOM_BYTES <= this.#bytesMax
  }
}
