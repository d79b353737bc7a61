/**
 * Reads what ByteWriter wrote. The checksum of the bytes was verified before, so a read beyond the end is our bug: it throws, and never returns other
 * bytes.
 */
import assert from 'node:assert/strict'

export class ByteReader {
  readonly bytes: Buffer
  at = 0

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  byte(): number {
    assert(this.at < this.bytes.byteLength)
    return this.bytes[this.at++]!
  }

  varint(): number {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = this.byte()
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
  }

  u32(): number {
    this.at += 4
    return this.bytes.readUInt32LE(this.at - 4)
  }

  u64(): bigint {
    this.at += 8
    return this.bytes.readBigUInt64LE(this.at - 8)
  }

  /** A view of the next bytes. */
  take(count: number): Buffer {
    this.skip(count)
    return this.bytes.subarray(this.at - count, this.at)
  }

  skip(count: number): void {
    assert(this.at + count <= this.bytes.byteLength)
    this.at += count
  }

  lengthAndBytes(): Buffer {
    return this.take(this.varint())
  }
}

/** How many bytes a number takes. @param value whole, 0 to 2^53 - 1 */
export function varintBytes(value: number): number {
  let count = 1
  for (let left = value; left >= 128; left = Math.floor(left / 128)) count++
  return count
}
