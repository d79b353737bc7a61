/** One end of a ring in another thread: counts what it produces or checks what it consumes. */
import { SpscRing } from '../../src/pipeline/spsc-ring.ts'

export interface RingEndTask {
  readonly ring: SharedArrayBuffer
  readonly end: 'produce' | 'consume'
  readonly messages: number
  /** Messages have from 4 to this many bytes. */
  readonly messageBytesMax: number
  readonly seed: number
}

export interface RingEndReport {
  readonly messages: number
  readonly checksum: number
}

/** Message i of a seed is 4 bytes of i, then lengthOf(i) bytes of one value. Both ends compute it by themselves. */
function lengthOf(seed: number, i: number, bytesMax: number): number {
  return (Math.imul(seed + i, 0x9e3779b1) >>> 8) % (bytesMax - 3)
}

export default function ringEnd({ data: task }: { data: RingEndTask }): RingEndReport {
  const ring = SpscRing.attach(task.ring)
  return task.end === 'produce' ? produce(ring, task) : consume(ring, task)
}

function produce(ring: SpscRing, { messages, messageBytesMax, seed }: RingEndTask): RingEndReport {
  let checksum = 0
  for (let i = 0; i < messages; i++) {
    const fill = lengthOf(seed, i, messageBytesMax)
    let at = ring.tryReserve(4 + fill)
    while (at < 0) {
      ring.waitForSpace(4 + fill)
      at = ring.tryReserve(4 + fill)
    }
    ring.bytes.writeInt32LE(i, at)
    ring.bytes.fill(i & 0xff, at + 4, at + 4 + fill)
    ring.publish()
    checksum = (checksum * 31 + fill) | 0
  }
  return { messages, checksum }
}

function consume(ring: SpscRing, { messages, messageBytesMax, seed }: RingEndTask): RingEndReport {
  let checksum = 0
  let seen = 0
  while (seen < messages) {
    ring.waitForMessage()
    for (let at = ring.next(); at >= 0; at = ring.next()) {
      const fill = ring.messageBytes - 4
      if (ring.bytes.readInt32LE(at) !== seen) throw new Error(`message ${seen} lost or repeated`)
      if (fill !== lengthOf(seed, seen, messageBytesMax)) throw new Error(`message ${seen} has a wrong length`)
      const value = seen & 0xff
      for (let k = 0; k < fill; k++) if (ring.bytes[at + 4 + k] !== value) throw new Error(`message ${seen} is torn`)
      checksum = (checksum * 31 + fill) | 0
      seen++
      if ((seen & 3) === 0) ring.release() // releases groups of up to four
    }
    ring.release()
  }
  return { messages: seen, checksum }
}
