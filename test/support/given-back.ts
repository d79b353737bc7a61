/**
 * A process that takes memory, frees it, and prints what it then still has. It does nothing else, because in the process of a test, memory that
 * other tests left is freed or used again meanwhile. `test/libc.process.test.ts` starts it.
 */
import { freeMemory } from '../../src/free-memory.ts'
import { setMmapThreshold, trimMalloc } from '../../src/libc.ts'

const MIB = 1024 * 1024

/** In bytes. */
export interface MemoryTaken {
  /** Growth of the process while the memory that it took is in use. */
  readonly during: number
  /** How much of this growth is left after the memory was freed. */
  readonly after: number
}

export interface GivenBack {
  readonly ofLargePieces: MemoryTaken
  readonly whenAsked: MemoryTaken
  /** The first byte of what stayed in use. */
  readonly kept: number
}

const written = (byteLength: number): Buffer<ArrayBuffer> => Buffer.allocUnsafeSlow(byteLength).fill(1)

function memoryOf(take: () => Buffer<ArrayBuffer>[], give: (taken: Buffer<ArrayBuffer>[]) => void): MemoryTaken {
  const before = process.memoryUsage.rss()
  const taken = take()
  const during = process.memoryUsage.rss() - before
  give(taken)
  return { during, after: process.memoryUsage.rss() - before }
}

setMmapThreshold(4 * MIB)
freeMemory(written(30 * MIB)) // without `setMmapThreshold` the C library would from here on keep pieces up to this length
const ofLargePieces = memoryOf(
  () => Array.from({ length: 6 }, () => written(8 * MIB)),
  (taken) => taken.forEach(freeMemory),
)

const inUse: Buffer[] = []
const whenAsked = memoryOf(
  () => Array.from({ length: 512 }, () => written(100 * 1024)),
  (taken) => {
    inUse.push(taken.pop()!)
    taken.forEach(freeMemory)
    trimMalloc()
  },
)
const givenBack: GivenBack = { ofLargePieces, whenAsked, kept: inUse[0]![0]! }
process.stdout.write(JSON.stringify(givenBack))
