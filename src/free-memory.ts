/**
 * Freeing memory of buffers by hand.
 *
 * Bytes lie outside the heap and are freed when their ArrayBuffer is collected. What another thread handed over makes hardly any garbage on
 * the heap, so the cheap collections come late, and for every few MiB of it V8 begins a full one, which takes 10 ms and more of the thread.
 */

/**
 * Frees the memory that the bytes lie in; every view of it is empty from then on. Call it only if nothing else uses that memory. What may be of
 * the pool that Node cuts small buffers from is left to the collection.
 */
export function freeMemory({ buffer }: Uint8Array<ArrayBuffer>): void {
  if (buffer.byteLength > Buffer.poolSize) buffer.transfer(0)
}
