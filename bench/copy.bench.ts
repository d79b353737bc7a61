/**
 * Which way of copying into shared memory is the fastest, by length, for addresses that are equal modulo 8 and for others?
 * `copyBytes` takes the better of the two from `FILLED_BYTES_MIN` on. `--smoke` runs each case once, so that CI catches rot.
 */
import { Bench } from 'tinybench'
import { copyBytes } from '../native-free-codecs/copy-bytes.ts'

const smoke = process.argv.includes('--smoke')
const ARENA_BYTES = 32 << 20
const arena = Buffer.from(new SharedArrayBuffer(ARENA_BYTES)).fill(1)
const received = Buffer.alloc(1 << 20, 7)

const ways: Record<string, (source: Buffer, at: number) => unknown> = {
  set: (source, at) => arena.set(source, at),
  fill: (source, at) => arena.fill(source, at, at + source.byteLength),
  copyBytes: (source, at) => copyBytes(source, arena, at),
}

const bench = new Bench({ name: 'copies', time: 100, ...(smoke && { time: 0, iterations: 1, warmup: false }) })
for (const bytes of [64, 200, 320, 400, 1024, 4096, 65_536]) {
  for (const shift of [0, 3]) {
    const source = received.subarray(shift, shift + bytes)
    for (const [way, copy] of Object.entries(ways)) {
      let at = 0
      bench.add(`${bytes} B, addresses ${shift === 0 ? 'alike' : 'unlike'}, ${way}`, () => {
        at = (at + 65_536) % (ARENA_BYTES - 65_536)
        copy(source, at)
      })
    }
  }
}
await bench.run()
console.table(
  bench.tasks.map(({ name, result }) => {
    const nanoseconds = result.state === 'completed' ? 1e6 * result.latency.p50 : NaN
    return { copy: name, 'p50 ns': nanoseconds.toFixed(0), 'GB/s': (parseInt(name, 10) / nanoseconds).toFixed(2) }
  }),
)
console.log({ node: process.version, lastByte: arena[ARENA_BYTES - 1] })
