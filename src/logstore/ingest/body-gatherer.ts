/**
 * Gathers one request body in the arena. A body of known, moderate size is copied once, straight into its slot; a long one or
 * one of unknown size is kept in pieces until it is whole, so that slow senders do not hold the arena.
 *
 * A slot that was taken is freed exactly once: by `discard`, or by the owner of what `finish` returned.
 *
 * H2  a body finds the arena full only when no slow sender holds any of it
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import type { Arena } from '../../pipeline/arena.ts'
import { DIRECT_BODY_BYTES_MAX } from '../limits.ts'

export interface GatheredBody {
  readonly offset: number
  readonly bytes: number
}

export class BodyGatherer {
  readonly #arena: Arena
  readonly #giveUpSlowest: () => boolean
  /** -1: unknown. */
  #declaredBytes: number
  #offset = -1
  #bytes = 0
  #pieces: Buffer[] = []

  /** @param giveUpSlowest false when no sender of another body is slow */
  constructor(arena: Arena, declaredBytes: number, giveUpSlowest: () => boolean) {
    this.#arena = arena
    this.#giveUpSlowest = giveUpSlowest
    this.#declaredBytes = declaredBytes
  }

  get hasArenaSpace(): boolean {
    return this.#offset >= 0
  }

  /** Sets the length of a body that is known only after the headers. Called before the first bytes. */
  declare(bytes: number): void {
    this.#declaredBytes = bytes
  }

  /** Copies the chunk, which is transient. False when the arena has no room: shed. */
  add(chunk: Uint8Array): boolean {
    const declared = this.#declaredBytes
    if (this.#offset < 0 && this.#bytes === 0 && declared > 0 && declared <= DIRECT_BODY_BYTES_MAX) {
      this.#offset = this.#allocate(declared)
      if (this.#offset < 0) return false
    }
    if (this.#offset >= 0) copyBytes(chunk, this.#arena.bytes, this.#offset + this.#bytes)
    else if (chunk.byteLength > 0) this.#pieces.push(Buffer.from(chunk))
    this.#bytes += chunk.byteLength
    return true
  }

  /** The whole body in the arena; null when the arena has no room. An empty body has no slot: offset -1. */
  finish(): GatheredBody | null {
    if (this.#offset < 0 && this.#bytes > 0) {
      const slot = this.#allocate(this.#bytes)
      if (slot < 0) return null
      let at = slot
      for (const piece of this.#pieces) at = copyBytes(piece, this.#arena.bytes, at)
      this.#pieces = []
      this.#offset = slot
    }
    return { offset: this.#offset, bytes: this.#bytes }
  }

  /** H2 */
  #allocate(bytes: number): number {
    for (;;) {
      const slot = this.#arena.allocate(bytes)
      if (slot >= 0 || !this.#giveUpSlowest()) return slot
    }
  }

  discard(): void {
    if (this.#offset >= 0) this.#arena.free(this.#offset)
    this.#offset = -1
    this.#pieces = []
  }
}
