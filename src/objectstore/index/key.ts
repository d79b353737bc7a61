/**
 * Keys as the tree has them: the number of the bucket, u32 with its highest byte first, then the bytes of the object's key. So the keys of
 * a bucket are neighbours, in the order of their bytes, which is the order that S3 lists them in.
 */
import assert from 'node:assert/strict'

export const OBJECT_KEY_BYTES_MAX = 1024
export const BUCKET_BYTES = 4
/** With a byte more than keys have: the bound of a search can be behind the longest key. */
export const KEY_BYTES_MAX = BUCKET_BYTES + OBJECT_KEY_BYTES_MAX + 1

/** Returns the length. */
export function writeKey(bucket: number, key: Uint8Array, into: Buffer): number {
  assert(key.length <= OBJECT_KEY_BYTES_MAX, 'a key has 1024 bytes at most')
  return writeBound(bucket, key, into)
}

/**
 * Writes the key at which a search begins; it may be longer than any key of an object.
 *
 * Bytes behind the 1025th change nothing: keys that do not differ before it are too short to be at or above the bound.
 */
export function writeBound(bucket: number, bound: Uint8Array, into: Buffer): number {
  into.writeUInt32BE(bucket, 0)
  const bytes = Math.min(bound.length, KEY_BYTES_MAX - BUCKET_BYTES)
  for (let i = 0; i < bytes; i++) into[BUCKET_BYTES + i] = bound[i]!
  return BUCKET_BYTES + bytes
}

/** A copy of a key without its bucket. */
export function objectKey(key: Buffer, keyBytes: number): Buffer {
  const copy = Buffer.allocUnsafe(keyBytes - BUCKET_BYTES)
  key.copy(copy, 0, BUCKET_BYTES, keyBytes)
  return copy
}

/**
 * Makes a key the lowest one above all that begin with it: bytes of 0xff at its end go, and the byte before them becomes one higher. When all of the
 * object's bytes go, it is the begin of the next bucket.
 *
 * @returns its length; 0 when nothing is above
 */
export function advancePastPrefix(key: Buffer, keyBytes: number): number {
  let bytes = keyBytes
  while (bytes > 0 && key[bytes - 1] === 0xff) bytes--
  if (bytes > 0) key[bytes - 1]! += 1
  return bytes
}
