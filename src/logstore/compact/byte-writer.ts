/** Bytes written one after the other into memory that grows, and is used again after `reset`. */
import { varintBytes } from './byte-reader.ts'

export class ByteWriter {
  bytes: Buffer<ArrayBuffer>
  at = 0

  constructor(capacity = 64 * 1024) {
    this.bytes = Buffer.allocUnsafeSlow(capacity)
  }

  reset(): void {
    this.at = 0
  }

  /** What was written since `reset`; valid until the next write. */
  written(): Buffer<ArrayBuffer> {
    return this.bytes.subarray(0, this.at)
  }

  /** Makes room for `count` bytes from `at` on. */
  reserve(count: number): void {
    const needed = this.at + count
    if (needed <= this.bytes.byteLength) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.bytes.byteLength))
    this.bytes.copy(larger, 0, 0, this.at)
    this.bytes = larger
  }

  byte(value: number): void {
    this.reserve(1)
    this.bytes[this.at++] = value
  }

  /** @param value whole, 0 to 2^53 - 1 */
  varint(value: number): void {
    this.reserve(varintBytes(value))
    let left = value
    while (left >= 128) {
      this.bytes[this.at++] = (left % 128) | 128
      left = Math.floor(left / 128)
    }
    this.bytes[this.at++] = left
  }

  u32(value: number): void {
    this.reserve(4)
    this.at = this.bytes.writeUInt32LE(value, this.at)
  }

  u64(value: bigint): void {
    this.reserve(8)
    this.at = this.bytes.writeBigUInt64LE(value, this.at)
  }

  /** Writes bytes [start, end) of a source. */
  copy(source: Uint8Array, start = 0, end: number = source.byteLength): void {
    const count = end - start
    this.reserve(count)
    const { bytes, at } = this
    if (count < 48) for (let i = 0; i < count; i++) bytes[at + i] = source[start + i]!
    else bytes.set(source.subarray(start, end), at)
    this.at += count
  }

  /** Writes the length as a varint, then the bytes. */
  lengthAndBytes(source: Uint8Array): void {
    this.varint(source.byteLength)
    this.copy(source)
  }
}
