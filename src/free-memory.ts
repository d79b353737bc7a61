/**
 * Frees the memory of buffers by hand.
 *
 * The bytes of a buffer lie outside the heap and are freed when their ArrayBuffer is collected. Buffers that another thread handed over make hardly
 * any garbage on the heap, so cheap collections come late. For every few MiB of such buffers V8 begins a full one, which takes the thread 10 ms and more.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Frees the memory that the bytes lie in; every view of it is empty from then on. Call it only if nothing else uses that memory. Memory that may
 * belong to Node's pool of small buffers is left to garbage collection.
 */
export function freeMemory({ buffer }: ArrayBufferView<ArrayBuffer>): void {
  if (buffer.byteLength > Buffer.poolSize) buffer.transfer(0)
}

type MinorCollection = (options: { readonly type: 'minor' }) => void

/**
 * For buffers whose memory cannot be freed by hand: runs a minor collection for every `everyBytes` of them, before V8 begins a full one, which walks the
 * whole heap. A minor collection walks only what is new since the one before, which is little.
 */
export class CollectedMemory {
  readonly #everyBytes: number
  #collect: MinorCollection | null
  #bytes = 0

  /** @param everyBytes below the 10 MiB or so of buffers from other threads and libraries for which V8 begins a full collection */
  constructor(everyBytes: number = 4 * 1024 * 1024, collect: MinorCollection | null = null) {
    this.#everyBytes = everyBytes
    this.#collect = collect
  }

  /** Counts bytes that were received and are not needed for long. */
  received(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes < this.#everyBytes) return
    this.#bytes = 0
    this.#collect ??= minorCollection()
    this.#collect({ type: 'minor' })
  }
}

/** V8 exposes `gc` only to contexts that begin after the flag is set. */
function minorCollection(): MinorCollection {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as MinorCollection // V8's own, which has no types
  setFlagsFromString('--no-expose-gc')
  return collect
}
