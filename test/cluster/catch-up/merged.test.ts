/** Copies of logs whose segments are merged and dropped while they are copied, into directories that have merged segments of their own. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import { commitCopy, finishCopy } from '../../../src/cluster/catch-up/commit.ts'
import type { RemoteLog } from '../../../src/cluster/catch-up/copy.ts'
import { listLog } from '../../../src/cluster/catch-up/listing.ts'
import { STREAM_BEGIN } from '../../../src/cluster/history.ts'
import type { Anchor } from '../../../src/cluster/history.ts'
import { mergedName } from '../../../src/log/merged.ts'
import { scanFrames } from '../../../src/log/read.ts'
import { RECORDS_NAME, SEGMENT_HEADER_BYTES, segmentName } from '../../../src/log/segment-format.ts'
import { inspect } from '../../../src/maintenance/inspect.ts'
import { Stopped, dyingFiles } from '../../support/dying-files.ts'
import { World } from '../../support/log-harness.ts'
import { merge, moveOut, writeMerged } from '../../support/merged-files.ts'
import { MovingStore, changingFiles } from '../../support/moving-store.ts'
import { modelRuns, seedOf } from '../../support/seed.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { LOG, copied, partsOf, readerOf } from './copying.ts'

/** Most tries of a copy whose source has nothing to give for a moment. */
const TRIES_MAX = 20

const SEGMENTS = '/data/segments'

/** The anchor that a cluster's lane would keep. Here everything confirmed is synced too. */
function anchorOf({ log, world: { files } }: MovingStore): Anchor {
  const { base } = log.segments.at(-1)!
  let end = { position: 0, chain: 0 }
  const file = files.open(`${SEGMENTS}/${segmentName(base)}/${RECORDS_NAME}`, 'read')
  scanFrames(file, log.id, base, SEGMENT_HEADER_BYTES, file.size(), {
    frame: (view) => (end = { position: view.position + frameBytes(view.payloadBytes), chain: view.headerCrc }),
    bad() {},
  })
  file.close()
  return { ...STREAM_BEGIN, sequence: end.position, end }
}

function remoteOf(store: MovingStore, anchor: Anchor, change: () => void): RemoteLog {
  const files = changingFiles(store.world.files, change)
  return {
    list: async () => listLog(files, LOG, anchor),
    read: readerOf(files, 1000),
  }
}

const sealedOf = ({ log }: MovingStore) => log.segments.filter(({ sealed }) => sealed)

/** The background work of a store, step by step. */
function lifeOf(store: MovingStore, from: number): (() => void)[] {
  const { files } = store.world
  const run = sealedOf(store).slice(from, from + 4)
  const bases = run.map(({ base }) => base)
  return [
    () => merge(files, SEGMENTS, bases.slice(0, 2)),
    () => writeMerged(files, SEGMENTS, bases),
    ...bases.map((base) => () => moveOut(files, SEGMENTS, base)),
    () => files.removeFile(`${SEGMENTS}/${segmentName(bases[0]!)}/${mergedName(run[1]!.end)}`),
    () => store.log.dropBefore(run[3]!.end),
  ]
}

describe('a copy of a log whose segments are merged', () => {
  it('is whole, whatever was merged here and there, and whenever it dies', async (context) => {
    const seed = seedOf(context)
    const met = { merged: 0, died: 0, dropped: 0 }
    for (let run = 0; run < modelRuns(40); run += 1) {
      const random = mulberry32(seed + run)
      const store = await MovingStore.open(seed + run, random, { cleaningShare: 0 })
      for (let n = 0; n < 300; n += 1) store.act()
      store.settle()
      const world = new World({ seed: seed + run })
      const { files } = world
      const anchor = anchorOf(store)
      const quiet = remoteOf(store, anchor, () => {})
      if (random() < 0.7) {
        const old = await copied(files, quiet, TRIES_MAX)
        commitCopy(partsOf(files), old)
        const from = Math.floor(random() * 2)
        const length = 2 + Math.floor(random() * 3)
        const bases = old.segments.slice(from, from + length).map(({ base }) => base)
        if (random() < 0.7) merge(files, SEGMENTS, bases)
      }
      const waiting = lifeOf(store, Math.floor(random() * 2))
      for (let skip = Math.floor(random() * 8); skip > 0; skip -= 1) waiting.shift()!()
      const remote = remoteOf(store, anchor, () => {
        if (waiting.length > 0 && random() < 0.01) waiting.shift()!()
      })
      const dies = Math.floor(random() * 200)
      try {
        const mortal = dyingFiles(files, dies)
        commitCopy(partsOf(mortal), await copied(mortal, remote, TRIES_MAX))
      } catch (error) {
        if (!(error instanceof Stopped)) throw error
        met.died += 1
        files.crash()
      }
      finishCopy(partsOf(files))
      // The directory now has the old log or the new one. Another copy brings the new one.
      if (files.exists('/data/FORMAT')) assert.deepEqual(inspect(files, '/data')[0]!.problems, [])
      const listing = await copied(files, remote, TRIES_MAX)
      commitCopy(partsOf(files), listing)
      assert.deepEqual(inspect(files, '/data')[0]!.problems, [])
      met.merged += Number(listing.segments.some(({ merged }) => merged !== undefined))
      met.dropped += Number(listing.segments[0]!.base > 0)
      const log = await world.open()
      assert.deepEqual(log.incidents, [])
      assert.equal(log.committed, anchor.end.position)
      await log.close()
    }
    assert(met.merged > 5 && met.died > 5 && met.dropped > 1, JSON.stringify(met))
  })
})
