/**
 * Listing the keys of a bucket as ListObjectsV2 does: in the order of their bytes, those with the delimiter behind the prefix rolled up into
 * common prefixes.
 *
 * S1  a common prefix costs one search: the scan continues behind all keys that begin with it, without a look at them
 * S2  a scan that goes on from `next` skips and repeats nothing that was there all the time, whatever is put and deleted in between:
 *     `next` is a place between keys, not a key
 */
import { FirstEnd } from './first-end.ts'
import { BUCKET_BYTES, KEY_BYTES_MAX, OBJECT_KEY_BYTES_MAX, advancePastPrefix, objectKey, writeBound } from './key.ts'
import type { KeyTree } from './tree.ts'
import { readValue } from './value.ts'
import type { ObjectValue } from './value.ts'

export interface ScanOptions {
  readonly prefix?: Uint8Array
  /** May have any length; empty: no delimiter. */
  readonly delimiter?: Uint8Array
  /** Lists keys at or above it, and common prefixes that have such keys. */
  readonly from?: Uint8Array
  /** As `from`, but only keys above it. */
  readonly after?: Uint8Array
  /** Keys and common prefixes together. */
  readonly max: number
}

export interface Listing {
  readonly keys: readonly ListedKey[]
  readonly commonPrefixes: readonly Buffer[]
  /** `from` for the rest. Null: there is no rest, or `max` is 0. */
  readonly next: Buffer | null
}

interface ListedKey {
  readonly key: Buffer
  readonly value: ObjectValue
}

const NONE = new Uint8Array(0)

export function scan(
  tree: KeyTree,
  bucket: number,
  { prefix = NONE, delimiter = NONE, from = NONE, after = NONE, max }: ScanOptions,
): Listing {
  const keys: ListedKey[] = []
  const commonPrefixes: Buffer[] = []
  if (max <= 0 || prefix.length > OBJECT_KEY_BYTES_MAX) return { keys, commonPrefixes, next: null }

  const begin = Buffer.allocUnsafe(KEY_BYTES_MAX)
  const beginBytes = writeBound(bucket, prefix, begin)
  const cursor = Buffer.allocUnsafe(KEY_BYTES_MAX)
  let cursorBytes = writeBound(bucket, Buffer.compare(from, prefix) > 0 ? from : prefix, cursor)
  if (after.length > 0 && Buffer.compare(after, cursor.subarray(BUCKET_BYTES, cursorBytes)) >= 0) {
    cursorBytes = writeBound(bucket, after, cursor)
    if (cursorBytes < KEY_BYTES_MAX) cursor[cursorBytes++] = 0 // the lowest above it
  }

  const firstEnd = new FirstEnd(delimiter)
  let found = tree.seek(cursor, cursorBytes)
  let last: Buffer = begin
  let lastIsPrefix = false
  while (found) {
    const { leaf, slot } = tree
    const keyBytes = leaf.copyKey(slot, cursor)
    if (!beginsWith(begin, beginBytes, cursor, keyBytes)) break
    if (keys.length + commonPrefixes.length === max) {
      return { keys, commonPrefixes, next: lastIsPrefix ? behindPrefix(last) : behindKey(last) }
    }
    const commonBytes = firstEnd.in(cursor, beginBytes, keyBytes)
    lastIsPrefix = commonBytes > 0
    if (lastIsPrefix) {
      last = objectKey(cursor, commonBytes)
      commonPrefixes.push(last)
      const passedBytes = advancePastPrefix(cursor, commonBytes)
      found = passedBytes > 0 && tree.seekOn(cursor, passedBytes) // S1
    } else {
      last = objectKey(cursor, keyBytes)
      keys.push({ key: last, value: readValue(leaf.bytes, leaf.valueAt(slot)) })
      found = tree.next()
    }
  }
  return { keys, commonPrefixes, next: null }
}

function beginsWith(begin: Buffer, beginBytes: number, key: Buffer, keyBytes: number): boolean {
  if (keyBytes < beginBytes) return false
  let i = beginBytes - 1
  while (i >= 0 && key[i] === begin[i]) i--
  return i < 0
}

/** The lowest place above a key. */
function behindKey(key: Buffer): Buffer {
  const place = Buffer.alloc(key.length + 1)
  key.copy(place)
  return place
}

/** The lowest place above all keys with a prefix. There is one, as the scan found more keys behind them. */
function behindPrefix(prefix: Buffer): Buffer {
  const place = Buffer.from(prefix)
  return place.subarray(0, advancePastPrefix(place, place.length))
}
