/**
 * Copying between buffers of which one may be over shared memory.
 *
 * `TypedArray.prototype.set` copies to and from a SharedArrayBuffer with one relaxed atomic access a word, and if the two addresses
 * differ modulo 8, one a byte: a quarter of the speed of memory. `Buffer.prototype.fill` is one memcpy whatever the memory is, but has a
 * call into native code to pay for. No thread may read the target before it is announced (a ring's tail, a message), so that nothing is
 * lost with the atomic accesses.
 */

/** From here on the call into native code has paid for itself, measured with `bench/copy.bench.ts`. */
const FILLED_BYTES_MIN = 320

/**
 * Writes all of `source` to `target`, from byte `at` on.
 *
 * @returns the position behind it
 * @throws RangeError it does not fit
 */
export function copyBytes(source: Uint8Array, target: Buffer, at: number): number {
  const end = at + source.byteLength
  if (source.byteLength < FILLED_BYTES_MIN) target.set(source, at)
  else target.fill(source, at, end)
  return end
}

/** Memory from Buffer's pool would keep the whole pool alive for as long as the copy. */
export function copyInOwnMemory(bytes: Uint8Array): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.byteLength)
  copyBytes(bytes, copy, 0)
  return copy
}
