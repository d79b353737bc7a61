/** Ids of subscriptions and deliveries: as text in the interface, as 16 bytes in frames. Uses only what browsers also have. */
import { ID_BYTES } from '../../broker/wire/connection-frames.ts'

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const VALUES = new Uint8Array(128).fill(64)
for (let i = 0; i < DIGITS.length; i++) VALUES[DIGITS.charCodeAt(i)] = i
const CODES = Uint8Array.from(DIGITS, (digit) => digit.charCodeAt(0))
/** Characters of 16 bytes in base64url. */
const TEXT_LENGTH = 22

const text = new Uint8Array(TEXT_LENGTH)

/** base64url of the 16 bytes at `at`, behind a prefix. */
export function idAt(prefix: string, bytes: Uint8Array, at: number): string {
  let to = 0
  for (let i = 0; i < ID_BYTES - 1; i += 3) {
    const word = (bytes[at + i]! << 16) | (bytes[at + i + 1]! << 8) | bytes[at + i + 2]!
    text[to++] = CODES[word >>> 18]!
    text[to++] = CODES[(word >>> 12) & 63]!
    text[to++] = CODES[(word >>> 6) & 63]!
    text[to++] = CODES[word & 63]!
  }
  const last = bytes[at + ID_BYTES - 1]!
  text[to++] = CODES[last >>> 2]!
  text[to] = CODES[(last & 3) << 4]!
  return prefix + String.fromCharCode.apply(null, text as unknown as number[]) // an array of numbers is what it reads
}

/** @returns false when the id is not one of the broker's */
export function putId(prefix: string, id: string, into: Uint8Array, at: number): boolean {
  if (id.length !== prefix.length + TEXT_LENGTH || !id.startsWith(prefix)) return false
  let bits = 0
  let word = 0
  let to = at
  for (let i = prefix.length; i < id.length; i++) {
    const value = VALUES[id.charCodeAt(i)] ?? 64
    if (value === 64) return false
    word = ((word << 6) | value) & 0xfff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    into[to++] = word >>> bits
  }
  return (word & ((1 << bits) - 1)) === 0
}
