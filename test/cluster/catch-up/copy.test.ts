/** Copies of logs that are written, cleaned and dropped while they are copied, on simulated files. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import { commitCopy, finishCopy } from '../../../src/cluster/catch-up/commit.ts'
import { copyLog } from '../../../src/cluster/catch-up/copy.ts'
import type { RemoteLog } from '../../../src/cluster/catch-up/copy.ts'
import { isPlace, listLog, readPiece } from '../../../src/cluster/catch-up/listing.ts'
import { STREAM_BEGIN } from '../../../src/cluster/history.ts'
import type { Anchor } from '../../../src/cluster/history.ts'
import { readAnchor } from '../../../src/cluster/lane/anchor-file.ts'
import { LOG_BEGIN } from '../../../src/cluster/message.ts'
import { StoreError } from '../../../src/errors.ts'
import type { Files } from '../../../src/log/files.ts'
import { scanFrames } from '../../../src/log/read.ts'
import { RECORDS_NAME, SEGMENT_HEADER_BYTES, segmentName } from '../../../src/log/segment-format.ts'
import { World, appended, openWriter } from '../../support/log-harness.ts'
import { MovingStore, changingFiles, recovered } from '../../support/moving-store.ts'
import { modelRuns, seedOf } from '../../support/seed.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { LOG, copied, partsOf, readerOf } from './copying.ts'

/** Most tries of a copy whose source has nothing to give for a moment. */
const TRIES_MAX = 5

const PIECE_BYTES = 1000

/** The anchor that a cluster's lane would keep. Here everything confirmed is synced too. */
function anchorOf({ log, world: { files } }: MovingStore): Anchor {
  const position = log.committed
  let end = LOG_BEGIN
  const base = log.segments.findLast((segment) => segment.base < position)?.base
  if (position > 0 && base !== undefined) {
    const file = files.open(`/data/segments/${segmentName(base)}/${RECORDS_NAME}`, 'read')
    scanFrames(file, log.id, base, SEGMENT_HEADER_BYTES, file.size(), {
      frame(view) {
        const frameEnd = view.position + frameBytes(view.payloadBytes)
        if (frameEnd === position) end = { position, chain: view.headerCrc }
      },
      bad() {},
    })
    file.close()
    assert.equal(end.position, position)
  }
  return { ...STREAM_BEGIN, sequence: position, end }
}

function remoteOf(store: MovingStore, change: () => void = () => {}): RemoteLog {
  const files = changingFiles(store.world.files, change)
  const read = readerOf(files, PIECE_BYTES)
  return {
    async list() {
      change()
      return listLog(files, LOG, anchorOf(store))
    },
    async read(path, from, into) {
      change()
      return read(path, from, into)
    },
  }
}

function act(store: MovingStore, times: number): void {
  for (let n = 0; n < times; n += 1) store.act()
}

const plain = (state: ReadonlyMap<number, { readonly position: number; readonly value: number }>) =>
  new Map(Array.from(state, ([key, { position, value }]) => [key, { position, value }]))

async function openStore(seed: number, random: () => number): Promise<MovingStore> {
  const store = await MovingStore.open(seed, random)
  act(store, 20 + random() * 400)
  store.settle()
  return store
}

describe('a copy of the log of another node', () => {
  it('is that log up to the anchor, whatever the other node does meanwhile, into an empty and into an old directory', async (context) => {
    const seed = seedOf(context)
    let [reused, moved] = [0, 0]
    for (let run = 0; run < modelRuns(25); run += 1) {
      const random = mulberry32(seed + run)
      const store = await openStore(seed + run, random)
      const pace = random() * 0.1
      const replaceShare = random() * 0.001
      let [read, rounds] = [0, 0]
      const remote = remoteOf(store, () => {
        if (random() < pace) store.act()
        if (random() < replaceShare) store.replaceSegments()
      })
      const counting: RemoteLog = {
        list() {
          rounds += 1
          return remote.list()
        },
        async read(path, from, into) {
          const piece = await remote.read(path, from, into)
          read += piece?.byteLength ?? 0
          return piece
        },
      }
      const world = new World({ seed: seed + run })
      for (let turn = 0; turn < 3; turn += 1) {
        read = 0
        rounds = 0
        const listing = await copied(world.files, counting, TRIES_MAX).catch((error: unknown) => {
          assert(error instanceof StoreError && error.kind === 'unavailable', String(error))
          return null
        })
        if (listing === null) continue
        moved += Number(rounds > 1)
        commitCopy(partsOf(world.files), listing)
        const total = listing.segments.reduce((sum, { file }) => sum + file.bytes, 0)
        if (turn > 0 && read < total) reused += 1
        assert.deepEqual(readAnchor(world.files, '/data'), listing.anchor)
        assert(!world.files.exists('/data/catch-up'))
        const { state, end } = await recovered(world, '/data')
        assert.equal(end, listing.anchor.end.position)
        assert.deepEqual(plain(state), plain(store.stateAt(end)))
        act(store, random() * 200)
        store.settle()
      }
    }
    assert(reused > 5 && moved > 2, `segments were there in ${reused} copies only, or went in ${moved}`)
  })

  it('leaves the old log or the new one when it dies at any step, and goes on from there', async (context) => {
    const seed = seedOf(context)
    const outcomes = { old: 0, new: 0 }
    for (let run = 0; run < modelRuns(30); run += 1) {
      const random = mulberry32(seed + run)
      const store = await openStore(seed + run, random)
      const remote = remoteOf(store)
      const world = new World({ seed: seed + run })
      if (random() < 0.8) commitCopy(partsOf(world.files), await copied(world.files, remote, TRIES_MAX))
      const old = world.files.exists('/data/FORMAT') ? await recovered(world, '/data') : { state: new Map(), end: 0 }
      act(store, 50 + random() * 300)
      store.settle()

      const rehearsal = new Mortal(world.files.clone(run), Infinity)
      commitCopy(partsOf(rehearsal), await copied(rehearsal, remote, TRIES_MAX))
      for (let life = 0; life < 1 + random() * 2; life += 1) {
        const mortal = new Mortal(world.files, Math.floor(random() * rehearsal.steps))
        try {
          commitCopy(partsOf(mortal), await copied(mortal, remote, TRIES_MAX))
        } catch (error) {
          assert(error instanceof Died, String(error))
        }
        if (random() < 0.5) world.files.crash()
        else world.files.kill()
        if (random() < 0.3) {
          const again = new Mortal(world.files, Math.floor(random() * 30))
          try {
            finishCopy(partsOf(again))
          } catch (error) {
            assert(error instanceof Died, String(error))
          }
          world.files.crash()
        }
        finishCopy(partsOf(world.files))
        const { state, end } = await recovered(
          world.files.exists('/data/FORMAT') ? world : new World({ seed }),
          '/data',
        )
        const expected = store.log.committed
        assert(end === old.end || end === expected, `it ends at ${end}, not at ${old.end} or ${expected}`)
        outcomes[end === expected ? 'new' : 'old'] += 1
        assert.deepEqual(plain(state), plain(end === old.end ? old.state : store.stateAt(end)))
        assert(!world.files.exists('/data/FORMAT') || world.files.exists('/data/segments'))
      }
      const listing = await copied(world.files, remote, TRIES_MAX)
      commitCopy(partsOf(world.files), listing)
      assert.deepEqual(plain((await recovered(world, '/data')).state), plain(store.stateAt(store.log.committed)))
    }
    assert(outcomes.old > 3 && outcomes.new > 3, JSON.stringify(outcomes))
  })

  it('goes on where it was: what is there already is not sent again', async () => {
    const store = await openStore(1, mulberry32(1))
    const remote = remoteOf(store)
    const world = new World({ seed: 1 })
    let left = 3
    const cut: RemoteLog = {
      list: () => remote.list(),
      async read(path, from, into) {
        if (left === 0) throw new StoreError('unavailable', 'cut', 'the line is cut')
        left -= 1
        return remote.read(path, from, into)
      },
    }
    await assert.rejects(copyLog({ ...LOG, files: world.files, remote: cut }), { code: 'cut' })
    const asked: string[] = []
    const listing = await copyLog({
      ...LOG,
      files: world.files,
      remote: {
        list: () => remote.list(),
        read(path, from, into) {
          asked.push(`${path} ${from}`)
          return remote.read(path, from, into)
        },
      },
    })
    assert(asked.every((each) => !each.endsWith(`${listing.segments.at(-1)!.file.path} 0`)))
    assert.equal(new Set(asked).size, asked.length)
  })

  it('reads from its disk only what a copy before it has left there', async () => {
    const store = await openStore(1, mulberry32(1))
    const { files } = new World({ seed: 1 })
    const read = new Map<string, number>()
    const checked = changingFiles(files, () => {})
    checked.open = (path, access) => {
      const file = files.open(path, access)
      const reading = Object.create(file) as typeof file // inherits the other methods of the file
      reading.read = (into, at) => {
        const count = file.read(into, at)
        if (count > SEGMENT_HEADER_BYTES) read.set(path, (read.get(path) ?? 0) + count)
        return count
      }
      reading.size = () => file.size()
      reading.close = () => file.close()
      return reading
    }
    const { segments } = await copyLog({ ...LOG, files, checked, remote: remoteOf(store) })
    assert(segments.length > 1)
    const places = segments.map(({ file }) => `/data/catch-up/${file.path}`)
    assert(places.every((place) => !read.has(place)))
    await copyLog({ ...LOG, files, checked, remote: remoteOf(store) })
    assert(places.every((place, n) => read.get(place) === segments[n]!.file.bytes))
  })

  it('has the next piece of a file read while one is written', async () => {
    const files = new World({ seed: 1 }).files
    const events: string[] = []
    const remote = remoteOf(await openStore(1, mulberry32(1)))
    const begun = Promise.withResolvers<void>()
    await assert.rejects(
      copyLog({
        ...LOG,
        files,
        remote: {
          async list() {
            const listing = await remote.list()
            const last = listing.segments.at(-1)!
            const long = { ...last, file: { ...last.file, bytes: 3 << 20 } }
            return { ...listing, segments: [long] }
          },
          async read(_path, from, into) {
            const bytes = into.byteLength
            events.push(`${from / bytes}`)
            if (events.length === 2) begun.resolve()
            await begun.promise
            if (from / bytes === 2) throw new StoreError('unavailable', 'cut', 'the line is cut')
            return into.fill(0)
          },
        },
        onProgress: ({ done }) => events.push(`wrote ${done >> 20}`),
      }),
      { code: 'cut' },
    )
    assert.deepEqual(events, ['0', '1', 'wrote 1', '2', 'wrote 2'])
  })

  it("notices bytes that are not the log's, asks once more, and gives up on a file that stays damaged", async () => {
    const store = await openStore(2, mulberry32(2))
    const remote = remoteOf(store)
    const wrong = (times: number): RemoteLog => ({
      list: () => remote.list(),
      async read(path, from, into) {
        const piece = await remote.read(path, from, into)
        if (from > 0 || !path.endsWith(RECORDS_NAME) || times === 0) return piece
        times -= 1
        const bad = Buffer.from(piece!)
        bad[200]! ^= 1
        return bad
      },
    })
    const world = new World({ seed: 2 })
    commitCopy(partsOf(world.files), await copyLog({ ...LOG, files: world.files, remote: wrong(1) }))
    assert.equal((await recovered(world, '/data')).end, store.log.committed)
    const other = new World({ seed: 3 })
    await assert.rejects(copyLog({ ...LOG, files: other.files, remote: wrong(Infinity) }), { code: 'catch_up_damaged' })
    assert(!other.files.exists('/data/FORMAT'))
  })

  it('refuses a directory that holds another log', async () => {
    const store = await openStore(4, mulberry32(4))
    const own = await MovingStore.open(5, mulberry32(5))
    act(own, 100)
    own.settle()
    await own.log.close()
    await assert.rejects(copyLog({ ...LOG, files: own.world.files, remote: remoteOf(store) }), {
      code: 'catch_up_foreign',
    })
  })

  it('leaves a log alone that was written to since it was planned to go', async () => {
    const store = await openStore(6, mulberry32(6))
    const world = new World({ seed: 6 })
    commitCopy(partsOf(world.files), await copied(world.files, remoteOf(store), TRIES_MAX))
    act(store, 200)
    store.settle()
    const listing = await copied(world.files, remoteOf(store), TRIES_MAX)
    for (let last = 1; !world.files.exists('/data/catch-up/plan.json'); last += 1)
      assert.throws(() => commitCopy(partsOf(new Mortal(world.files, last)), listing), Died)
    const log = await world.open()
    appended(openWriter(log), Buffer.from('[1,2,"x"]'))
    world.step()
    await log.close()
    finishCopy(partsOf(world.files))
    assert(!world.files.exists('/data/catch-up'))
    const again = await world.open()
    assert.equal(again.committed, log.committed)
  })

  it('gives nothing but files of a log', async () => {
    const { files } = new World({ seed: 1 })
    for (const path of [
      'FORMAT',
      '../x',
      'segments/../../etc/passwd',
      '/etc/passwd',
      'segments/0000000000000000/..',
      'a',
    ]) {
      assert(!isPlace(path), path)
      const refused = readPiece({ files, directory: '/data' }, { path, from: 0, bytes: 1 })
      await assert.rejects(refused, { code: 'catch_up_request_invalid' })
    }
    assert(isPlace('segments/0000000000000000/records.log'))
    assert(isPlace('bundles/0000000000000040/manifest.json'))
    assert(isPlace('checkpoint-0000000000000040.bin'))
  })
})

class Died extends Error {}

/** Files of a process that dies at a step: its later steps have no effect. */
class Mortal implements Files {
  steps = 0
  readonly #files: Files
  readonly #last: number

  constructor(files: Files, last: number) {
    this.#files = files
    this.#last = last
  }

  #step(): void {
    if (this.steps >= this.#last) throw new Died()
    this.steps += 1
  }

  #mortal(file: ReturnType<Files['open']>): ReturnType<Files['open']> {
    return {
      writev: (parts, at) => (this.#step(), file.writev(parts, at)),
      read: (into, at) => file.read(into, at),
      fdatasync: () => (this.#step(), file.fdatasync()),
      truncate: (bytes) => (this.#step(), file.truncate(bytes)),
      size: () => file.size(),
      close: () => file.close(),
    }
  }

  open(...[path, access]: Parameters<Files['open']>) {
    return this.#mortal(this.#files.open(path, access))
  }
  create(path: string) {
    this.#step()
    return this.#mortal(this.#files.create(path))
  }
  makeDirectory(path: string): void {
    this.#step()
    this.#files.makeDirectory(path)
  }
  list(path: string) {
    return this.#files.list(path)
  }
  exists(path: string) {
    return this.#files.exists(path)
  }
  rename(from: string, to: string): void {
    this.#step()
    this.#files.rename(from, to)
  }
  removeFile(path: string): void {
    this.#step()
    this.#files.removeFile(path)
  }
  removeDirectory(path: string): void {
    this.#step()
    this.#files.removeDirectory(path)
  }
  syncDirectory(path: string): void {
    this.#step()
    this.#files.syncDirectory(path)
  }
  freeBytes(path: string) {
    return this.#files.freeBytes(path)
  }
}
