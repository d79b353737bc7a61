/**
 * Freeing memory of buffers by hand.
 *
 * Bytes lie outside the heap and are freed when their ArrayBuffer is collected. What another thread handed over makes hardly any garbage on
 * the heap, so the cheap collections come late, and for every few MiB of it V8 begins a full one, which takes 10 ms and more of the thread.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Frees the memory that the bytes lie in; every view of it is empty from then on. Call it only if nothing else uses that memory. What may be of
 * the pool that Node cuts small buffers from is left to the collection.
 */
export function freeMemory({ buffer }: ArrayBufferView<ArrayBuffer>): void {
  if (buffer.byteLength > Buffer.poolSize) buffer.transfer(0)
}

type MinorCollection = (options: { readonly type: 'minor' }) => void

/**
 * Where memory of buffers cannot be freed by hand: has a cheap collection made for every so many bytes of it, before V8 begins a full one, which walks
 * the whole heap. A cheap one walks what is new since the one before, which is little.
 */
export class CollectedMemory {
  readonly #everyBytes: number
  #collect: MinorCollection | null
  #bytes = 0

  /** @param everyBytes V8 begins a full collection for every 10 MiB or so of what other threads and libraries hand over */
  constructor(everyBytes: number = 4 * 1024 * 1024, collect: MinorCollection | null = null) {
    this.#everyBytes = everyBytes
    this.#collect = collect
  }

  /** So much more was received, and is not needed for long. */
  received(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes < this.#everyBytes) return
    this.#bytes = 0
    this.#collect ??= minorCollection()
    this.#collect({ type: 'minor' })
  }
}

/** V8 shows it to contexts that begin after the flag is set. */
function minorCollection(): MinorCollection {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as MinorCollection // V8's own, which has no types
  setFlagsFromString('--no-expose-gc')
  return collect
}
