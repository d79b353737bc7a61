/** Bodies of the store in memory: what is written, and what is read again. */
import assert from 'node:assert/strict'
import { BodyDigests } from '../../src/objectstore/bodies/incremental-digests.ts'
import type { BodyDigest, DigestPlan } from '../../src/objectstore/bodies/body-digests.ts'
import type { BodyWriter, ByteSource, ReceivedBody } from '../../src/objectstore/operations.ts'

/** A writer asks for a pause after this many bytes: few, so that tests meet it. */
const HELD_BYTES_MAX = 96 << 10
/** Odd, so that pieces end where nothing else does. */
const PIECE_BYTES = 50_001

/** Counts what was begun and not ended: this shows when a handler forgets a body or a source. */
export class OpenBodies {
  bodies = 0
  sources = 0
  /** Bytes written to bodies so far. */
  bytes = 0
}

export class MemoryBody implements ReceivedBody {
  readonly bytes: Buffer
  readonly digest: BodyDigest
  readonly #open: OpenBodies
  #isOpen = true

  constructor(bytes: Buffer, digest: BodyDigest, open: OpenBodies) {
    this.bytes = bytes
    this.digest = digest
    this.#open = open
  }

  /** Only one change may take a body. */
  take(): Buffer {
    assert(this.#isOpen, 'a body is given to one change, before it is abandoned')
    this.abandon()
    return this.bytes
  }

  abandon(): void {
    if (this.#isOpen) this.#open.bodies--
    this.#isOpen = false
  }
}

export class MemoryWriter implements BodyWriter {
  readonly #digests: BodyDigests
  readonly #open: OpenBodies
  readonly #pieces: Buffer[] = []
  #state: 'open' | 'finished' | 'abandoned' = 'open'
  #body: MemoryBody | null = null
  #heldBytes = 0
  #listener: (() => void) | null = null

  constructor(plan: DigestPlan, open: OpenBodies) {
    this.#digests = new BodyDigests(plan)
    this.#open = open
    open.bodies++
  }

  write(bytes: Uint8Array): boolean {
    assert.equal(this.#state, 'open', 'nothing is written to a body that has ended')
    const copy = Buffer.from(bytes)
    this.#open.bytes += copy.byteLength
    this.#pieces.push(copy)
    this.#digests.update(copy)
    this.#heldBytes += copy.length
    if (this.#heldBytes < HELD_BYTES_MAX) return true
    queueMicrotask(() => {
      this.#heldBytes = 0
      this.#listener?.()
    })
    return false
  }

  onDrain(listener: () => void): void {
    this.#listener = listener
  }

  finish(received: (body: ReceivedBody) => void): void {
    assert.equal(this.#state, 'open', 'a body is finished once')
    this.#state = 'finished'
    const body = new MemoryBody(Buffer.concat(this.#pieces), this.#digests.finish(), this.#open)
    this.#body = body
    queueMicrotask(() => received(body))
  }

  abandon(): void {
    if (this.#state === 'open') this.#open.bodies--
    this.#body?.abandon()
    this.#state = 'abandoned'
  }
}

export class MemorySource implements ByteSource {
  readonly #bytes: Buffer
  readonly #open: OpenBodies
  #at = 0
  #isOpen = true

  constructor(bytes: Buffer, open: OpenBodies) {
    this.#bytes = bytes
    this.#open = open
    open.sources++
  }

  async next(): Promise<Uint8Array | null> {
    if (!this.#isOpen || this.#at === this.#bytes.length) {
      this.close()
      return null
    }
    const piece = this.#bytes.subarray(this.#at, this.#at + PIECE_BYTES)
    this.#at += piece.length
    return piece
  }

  close(): void {
    if (this.#isOpen) this.#open.sources--
    this.#isOpen = false
  }
}
