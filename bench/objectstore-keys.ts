/**
 * What do many keys cost? Pages anywhere in a bucket, a whole listing, common prefixes, memory, and a restart.
 *
 *   node bench/objectstore-keys.ts [--keys 10000000] [--pages 2000] [--data-dir DIR]
 *
 * Writes the keys (objects of no bytes) into a directory of its own through the engine, without HTTP, and a second bucket with a tenth of
 * them under three prefixes. Then it starts the object store on it and lists over HTTP, puts while it lists, and restarts it. Talks to
 * this machine only.
 */
import { finishBody } from '../src/objectstore/finish-body.ts'
import { randomFillSync, randomInt } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Log } from '../src/log/log.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { createLogger, loggerOf } from '../src/observability/logger.ts'
import { systemClock } from '../src/observability/system-clock.ts'
import { StoreCounters } from '../src/objectstore/counters.ts'
import { EXTENT_BYTES } from '../src/objectstore/engine/frames.ts'
import { DigestLanes } from '../src/objectstore/bodies/digest-lanes.ts'
import { openEngine } from '../src/objectstore/engine/engine.ts'
import { FrameReads } from '../src/objectstore/engine/frame-reads.ts'
import { CheckpointThread } from '../src/engine/checkpoint-thread.ts'
import { OBJSTORE_SEGMENT_BYTES } from '../src/config/limits.ts'
import { LOG_RING_BYTES } from '../src/objectstore/limits.ts'
import { Arena } from '../src/pipeline/arena.ts'
import { Service, row, timed } from './support/service.ts'
import { ReadErrors } from '../src/observability/read-errors.ts'
import { storeObject } from '../src/objectstore/s3/objects/incoming-object.ts'

const { values } = parseArgs({
  options: {
    keys: { type: 'string', default: '10000000' },
    pages: { type: 'string', default: '2000' },
    'data-dir': { type: 'string', default: tmpdir() },
  },
})
const keys = Number(values.keys)
const pages = Number(values.pages)
const PUTS_AT_ONCE = 2000
const directory = mkdtempSync(join(values['data-dir'], 'trilog-objectstore-keys-'))

/** 40 characters, in no order. */
function keyOf(number: number): string {
  const scattered = (Math.imul(number, 0x9e37_79b1) >>> 0).toString(16).padStart(8, '0')
  return `tenants/${scattered.slice(0, 2)}/photos/${scattered}${String(number).padStart(9, '0')}.jpg`
}

const ATTRIBUTES = {
  contentType: 'image/jpeg',
  cacheControl: null,
  contentDisposition: null,
  contentEncoding: null,
  contentLanguage: null,
  expires: null,
  metadata: {},
  tags: [],
  storageClass: 'STANDARD' as const,
  encryption: null,
}

async function preload(): Promise<void> {
  const arena = Arena.create(4 * EXTENT_BYTES, EXTENT_BYTES)
  const log = await Log.open({
    directory: join(directory, 'data'),
    segmentsName: 'segments',
    segmentBytes: OBJSTORE_SEGMENT_BYTES.default,
    ringBytes: LOG_RING_BYTES,
    arena: arena.shared,
  })
  const counters = new StoreCounters()
  const nothing = (): never => {
    throw new Error('nothing is read and no large body comes')
  }
  const readErrors = new ReadErrors(nothing, { error: nothing })
  const thread = new CheckpointThread(nodeFiles)
  const { store, checkpoints } = openEngine({
    log,
    directory: join(directory, 'data'),
    files: nodeFiles,
    reads: new FrameReads({
      log,
      cached: null,
      jobs: { run: nothing },
      threads: 1,
      defer: setImmediate,
      counters,
      readErrors,
    }),
    write: async (task) => thread.run(task),
    scan: nothing,
    digests: new DigestLanes({ count: 1, arena: arena.shared, onDeath: nothing }, nothing),
    arena,
    clock: systemClock,
    logger: loggerOf(createLogger('warn'), 'objectstore'),
    counters,
    random: randomFillSync,
    defer: setImmediate,
    segmentBytes: OBJSTORE_SEGMENT_BYTES.default,
    readCacheBytes: 0,
    objectCacheBytes: 64 << 20,
    uploadTtlMs: 3_600_000,
  })
  const put = async (bucketName: string, count: number, nameOf: (number: number) => string): Promise<void> => {
    const bucket = await store.createBucket(bucketName, 'local')
    for (let at = 0; at < count; at += PUTS_AT_ONCE) {
      const puts = Array.from({ length: Math.min(PUTS_AT_ONCE, count - at) }, async (_, i) => {
        const key = nameOf(at + i)
        const writer = store.receive(0, { checksums: [], sha256: false }, { bucket, key, upload: null })
        const body = await finishBody(writer)
        await storeObject(store, { bucket, key, attributes: ATTRIBUTES, checksums: [], body, precondition: () => null })
      })
      await Promise.all(puts)
    }
  }
  await put('many', keys, keyOf)
  await put('few-prefixes', keys / 10, (number) => `${'abc'[number % 3]}/${String(number).padStart(9, '0')}`)
  await checkpoints.idle()
  await log.close()
}

const start = (): Promise<Service> =>
  Service.start('objectstore', {
    OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
    OBJSTORE_DATA_DIR: join(directory, 'data'),
  })

const residentMiB = ({ pid }: Service): string =>
  (Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024).toFixed(0)

async function listAll(store: Service): Promise<{ keys: number; pagesMs: number[] }> {
  const pagesMs: number[] = []
  let found = 0
  for (let token: string | null = ''; token !== null;) {
    const path: string = `/many?list-type=2${token === '' ? '' : `&continuation-token=${encodeURIComponent(token)}`}`
    const { result, ms }: { result: Buffer; ms: number } = await timed(() => store.sendForBytes('GET', path, ''))
    const text = result.toString()
    pagesMs.push(ms)
    found += Number(/<KeyCount>(\d+)</.exec(text)![1])
    token = /<NextContinuationToken>([^<]+)</.exec(text)?.[1] ?? null
  }
  return { keys: found, pagesMs }
}

try {
  const { ms } = await timed(preload)
  console.log(`${keys + keys / 10} keys written in ${(ms / 1000).toFixed(1)} s`)
  let store = await start()
  console.log(`ready in ${store.readyMs.toFixed(0)} ms, resident ${residentMiB(store)} MiB`)

  const anywhere: number[] = []
  for (let i = 0; i < pages; i++) {
    const after = encodeURIComponent(keyOf(randomInt(keys)))
    anywhere.push((await timed(() => store.sendForBytes('GET', `/many?list-type=2&start-after=${after}`, ''))).ms)
  }
  console.log(row('page of 1000 anywhere', anywhere))

  const delimited: number[] = []
  for (let i = 0; i < pages; i++) {
    delimited.push((await timed(() => store.sendForBytes('GET', '/few-prefixes?list-type=2&delimiter=%2F', ''))).ms)
  }
  console.log(row(`3 prefixes over ${keys / 10} keys`, delimited))

  const whole = await timed(() => listAll(store))
  if (whole.result.keys !== keys) throw new Error(`${whole.result.keys} keys listed`)
  console.log(row('page of the whole listing', whole.result.pagesMs))
  console.log(`whole listing: ${Math.round(keys / (whole.ms / 1000))} keys/s`)
  console.log(`resident ${residentMiB(store)} MiB`)

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    await store.stop(signal)
    store = await start()
    console.log(`restart after ${signal} to ready: ${store.readyMs.toFixed(0)} ms`)
  }
  await store.stop()
} finally {
  rmSync(directory, { recursive: true, force: true })
}
