/** Sizes of what a page holds: see page.ts. */
import { VALUE_BYTES } from './value.ts'

export const PAGE_HEADER_BYTES = 16
export const SLOT_BYTES = 8
/** Bytes of a key that stand in its slot. */
export const HEAD_BYTES = 4
export const CHILD_BYTES = 4

export const valueBytesOf = (level: number): number => (level === 0 ? VALUE_BYTES : CHILD_BYTES)

/** Bytes of a key's rest that stand in the heap. */
export const tailBytes = (restBytes: number): number => (restBytes > HEAD_BYTES ? restBytes - HEAD_BYTES : 0)

/** The first four bytes of a key from byte `from` on, as a number; zeros stand behind its end. */
export function headOf(key: Buffer, from: number, end: number): number {
  let head = 0
  for (let i = from; i < from + HEAD_BYTES; i++) head = (head << 8) | (i < end ? key[i]! : 0)
  return head >>> 0
}
