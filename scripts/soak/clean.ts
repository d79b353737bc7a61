/**
 * The log of a service beside clients that write at a steady pace and need little of it for long: after many rounds of cleaning it is still
 * below twice what lives in it and six segments. What lives is read again in the end, whole.
 */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../../bench/load/random.ts'
import { BrokerServer } from '../../test/support/broker.ts'
import type { Stream } from '../../test/support/broker.ts'
import { ObjectStoreServer } from '../../test/support/objectstore.ts'
import type { TestBucket } from '../../test/support/objectstore.ts'

const SEGMENT_BYTES = 8 << 20
const SEGMENTS_SPARED = 6
const SAMPLE_MS = 500
/** What was live at any of so many last looks may still take room: retention removes much at once, every five seconds. */
const LOOKS_REMEMBERED = 20
const WRITES_PER_SECOND = 24
const WRITE_BYTES = 512 << 10
/** No fewer rounds of cleaning than that are enough to tell. */
const LOGS_WRITTEN_MIN = 3

export interface CleanOptions {
  readonly service: 'objectstore' | 'broker'
  readonly seed: number
  readonly seconds: number
  readonly report?: (line: string) => void
}

export interface CleanSummary {
  readonly writes: number
  readonly writtenBytes: number
  readonly liveBytes: number
  readonly highestLogBytes: number
  /** The highest log beside its bound at the time. */
  readonly highestShare: number
}

interface Sizes {
  readonly writtenBytes: number
  readonly liveBytes: number
}

/** Writes to a service, and knows what of it lives. */
interface Subject {
  readonly server: BrokerServer | ObjectStoreServer
  write(number: number): Promise<void>
  sizes(): Promise<Sizes>
  /** @throws AssertionError when something that should be there is not */
  check(): Promise<void>
}

/** @throws AssertionError when the log grows beyond its bound, a write is refused, or something that was stored is missing */
export async function runClean({ service, seed, seconds, report }: CleanOptions): Promise<CleanSummary> {
  const random = new Random(seed)
  const subject = service === 'objectstore' ? await Objects.start(random) : await Records.start(random)
  const watch = new Watch(subject)
  const endMs = performance.now() + seconds * 1000
  let writes = 0
  const failed = new AbortController()
  const isOver = (atMs: number): boolean => atMs >= endMs || failed.signal.aborted
  const write = async (): Promise<void> => {
    for (let dueMs = performance.now(); !isOver(dueMs); dueMs += 1000 / WRITES_PER_SECOND) {
      await sleep(dueMs - performance.now())
      await subject.write(writes++)
    }
  }
  const look = async (): Promise<void> => {
    while (!isOver(performance.now())) {
      await sleep(SAMPLE_MS)
      await watch.look()
      if (watch.looks % 20 === 0) report?.(watch.line)
    }
  }
  try {
    const working = [write(), look()].map((work) => work.catch((error: unknown) => failed.abort(error)))
    await Promise.all(working)
    failed.signal.throwIfAborted()
    await watch.look()
    await subject.check()
    await subject.server.restart()
    await subject.check()
    const { writtenBytes, liveBytes, highestLogBytes, highestShare } = watch
    assert(
      writtenBytes > LOGS_WRITTEN_MIN * highestLogBytes,
      `${writtenBytes} bytes are too few to tell: go on for longer`,
    )
    await subject.server.stop()
    return { writes, writtenBytes, liveBytes, highestLogBytes, highestShare }
  } catch (error) {
    report?.(subject.server.stderr)
    await subject.server.kill().catch(() => {}) // it may be gone already
    throw error
  }
}

class Watch {
  readonly #subject: Subject
  #lived: number[] = []
  looks = 0
  line = ''
  writtenBytes = 0
  liveBytes = 0
  highestLogBytes = 0
  highestShare = 0

  constructor(subject: Subject) {
    this.#subject = subject
  }

  async look(): Promise<void> {
    const { writtenBytes, liveBytes } = await this.#subject.sizes()
    const logBytes = writtenBytes - oldestSegment(this.#subject.server.dataDirectory)
    this.#lived = [...this.#lived, liveBytes].slice(-LOOKS_REMEMBERED)
    const boundBytes = 2 * Math.max(...this.#lived) + SEGMENTS_SPARED * SEGMENT_BYTES
    this.looks += 1
    this.writtenBytes = writtenBytes
    this.liveBytes = liveBytes
    this.highestLogBytes = Math.max(this.highestLogBytes, logBytes)
    this.highestShare = Math.max(this.highestShare, logBytes / boundBytes)
    this.line = `log ${mib(logBytes)} of ${mib(writtenBytes)} MiB, ${mib(liveBytes)} live, at most ${mib(boundBytes)} MiB allowed`
    assert(logBytes <= boundBytes, this.line)
  }
}

const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(0)

/** Its position in the whole log. */
function oldestSegment(dataDirectory: string): number {
  const bases = readdirSync(`${dataDirectory}/segments`).filter((name) => /^[0-9a-f]{16}$/.test(name))
  return Math.min(...bases.map((name) => Number.parseInt(name, 16)))
}

async function gaugeOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(url)).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)![1])
}

/** Objects that are overwritten all the time, among some that stay. */
class Objects implements Subject {
  static readonly #keys = 32
  readonly server: ObjectStoreServer
  readonly #bucket: TestBucket
  readonly #random: Random
  readonly #last = new Map<string, Buffer>()

  static async start(random: Random): Promise<Objects> {
    const server = await ObjectStoreServer.start({ env: { OBJSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) } })
    const objects = new Objects(server, await server.newBucket(), random)
    for (let n = 0; n < 4; n += 1) await objects.#put(`stays-${n}`)
    return objects
  }

  private constructor(server: ObjectStoreServer, bucket: TestBucket, random: Random) {
    this.server = server
    this.#bucket = bucket
    this.#random = random
  }

  write(): Promise<void> {
    return this.#put(`passing-${this.#random.between(0, Objects.#keys - 1)}`)
  }

  async #put(key: string): Promise<void> {
    const body = Buffer.alloc(WRITE_BYTES, `${key} ${this.#random.uint32()} `)
    const reply = await this.#bucket.ask('PUT', `/${key}`, { body })
    assert.equal(reply.status, 200, reply.text)
    this.#last.set(key, body)
  }

  async sizes(): Promise<Sizes> {
    const url = `${this.server.url}/v1/metrics`
    const writtenBytes = await gaugeOf(url, 'objstore_log_committed_position')
    return { writtenBytes, liveBytes: await gaugeOf(url, 'objstore_live_bytes') }
  }

  async check(): Promise<void> {
    for (const [key, body] of this.#last) {
      const reply = await this.#bucket.ask('GET', `/${key}`)
      assert(reply.bytes.equals(body), `${key} is not what was put last`)
    }
  }
}

/** Records of which the newest stay, beside a stream that keeps all of its few. */
class Records implements Subject {
  static readonly #passing = 4
  static readonly #keptEvery = 50
  readonly server: BrokerServer
  readonly #streams: readonly Stream[]
  readonly #random: Random
  readonly #kept: string[] = []
  /** By name of the stream: payloads, oldest first. */
  readonly #payloads = new Map<string, string[]>()

  static async start(random: Random): Promise<Records> {
    const flags = ['--segment-bytes', String(SEGMENT_BYTES), '--metrics-exposure', 'http']
    const server = await BrokerServer.start({ flags })
    const retention = { max_bytes: 8 * WRITE_BYTES }
    const streams = [await server.newStream()]
    for (let n = 0; n < Records.#passing; n += 1) streams.push(await server.newStream({ retention }))
    return new Records(server, streams, random)
  }

  private constructor(server: BrokerServer, streams: readonly Stream[], random: Random) {
    this.server = server
    this.#streams = streams
    this.#random = random
  }

  async write(number: number): Promise<void> {
    const isKept = number % Records.#keptEvery === 0
    const stream = this.#streams[isKept ? 0 : this.#random.between(1, Records.#passing)]!
    const payload = `${number} ${this.#random.uint32()} `.padEnd(isKept ? 1000 : WRITE_BYTES, 'payload ')
    await stream.publish(payload)
    if (isKept) this.#kept.push(payload)
    else this.#payloads.set(stream.name, [...(this.#payloads.get(stream.name) ?? []), payload].slice(-8))
  }

  async sizes(): Promise<Sizes> {
    const url = `${this.server.url}/metrics`
    const writtenBytes = await gaugeOf(url, 'mq_log_committed_position')
    const streams = await Promise.all(this.#streams.map((stream) => stream.describe()))
    return { writtenBytes, liveBytes: streams.reduce((sum, { payload_bytes }) => sum + payload_bytes, 0) }
  }

  async check(): Promise<void> {
    for (const [i, { name }] of this.#streams.entries()) {
      const stream = this.server.stream(name)
      const expected = i === 0 ? this.#kept : (this.#payloads.get(name) ?? [])
      const { next_offset } = await stream.describe()
      let at = next_offset - expected.length
      for (const payload of expected) {
        const { records } = await stream.replay(`start_offset=${at}&max_records=1`)
        assert.equal(records[0]?.offset, at)
        assert(Buffer.from(records[0].payload_hex, 'hex').equals(Buffer.from(payload)), `record ${at} of ${name}`)
        at += 1
      }
    }
  }
}
