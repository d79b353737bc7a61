/** Checking a file while it arrives in pieces finds the same as reading the whole file. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ArrivingSegment, ArrivingStandIn } from '../../../src/cluster/catch-up/arrival.ts'
import type { Arrival } from '../../../src/cluster/catch-up/arrival.ts'
import type { ListedSegment } from '../../../src/cluster/catch-up/listing.ts'
import { readWhole } from '../../../src/log/files.ts'
import { RECORDS_NAME, segmentName } from '../../../src/log/segment-format.ts'
import { STAND_IN_NAME, encodeStandInHeader } from '../../../src/log/stand-in.ts'
import { LogSource } from '../../../src/maintenance/source.ts'
import { World, appended, openWriter, payloadOf } from '../../support/log-harness.ts'
import { modelRuns, seedOf } from '../../support/seed.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { LOG } from './copying.ts'

const MIB = 1 << 20

/** Sealed segments with frames of up to several times the memory of a frame reader. */
async function longFrames() {
  const world = new World({ seed: 1 })
  const log = await world.open({ ringBytes: 8 * MIB, segmentBytes: 5 * MIB })
  const writer = openWriter(log)
  const sizes = [100, 2.5 * MIB, 8, MIB, 0, MIB - 48, 300_000, 300_000, 1.9 * MIB, 40, 700_000, 2 * MIB, 100, 3 * MIB]
  sizes.forEach((bytes, n) => {
    appended(writer, payloadOf(n, bytes))
    world.step()
  })
  const segments = log.segments.filter(({ sealed }) => sealed)
  assert(segments.length >= 2)
  return { world, logId: log.id, segments }
}

function feed(arrival: Arrival, bytes: Buffer, random: () => number): void {
  for (let at = 0; at < bytes.byteLength;) {
    const piece = Buffer.from(bytes.subarray(at, at + 1 + Math.floor(random() * random() * 2 * MIB)))
    arrival.add(piece)
    at += piece.byteLength
    piece.fill(0) // a real source would use this memory again
  }
}

describe('a file that is checked while it arrives', () => {
  it('has the frames that a reader of the whole segment finds, damaged or not, in whatever pieces', async (context) => {
    const random = mulberry32(seedOf(context))
    const { world, logId, segments } = await longFrames()
    const source = new LogSource(world.files, { ...LOG, logId })
    const met = { whole: 0, not: 0 }
    for (let run = 0; run < modelRuns(30); run += 1) {
      const { base } = segments[run % segments.length]!
      const path = `${LOG.segmentsName}/${segmentName(base)}/${RECORDS_NAME}`
      const bytes = readWhole(world.files, `${LOG.directory}/${path}`)!
      const { end, chain } = source.scan(base, null)
      const listed: ListedSegment = { base, end, chain, file: { path, bytes: bytes.byteLength }, sidecars: [] }
      const copied = Buffer.from(bytes)
      if (random() < 0.7) copied[Math.floor(random() * random() * copied.byteLength)]! ^= 1 << Math.floor(random() * 8)
      const file = world.files.open(`${LOG.directory}/${path}`, 'write')
      file.writev([copied], 0)
      const scan = source.scan(base, null)
      const expected = scan.damage.length === 0 && scan.sealed && scan.end === end && scan.chain === chain
      const arrival = new ArrivingSegment(source, listed)
      feed(arrival, copied, random)
      assert.equal(arrival.isWhole(), expected)
      met[expected ? 'whole' : 'not'] += 1
      const other = new ArrivingSegment(source, { ...listed, chain: chain + 1 })
      feed(other, copied, random)
      assert(!other.isWhole())
      file.writev([bytes], 0)
      file.close()
    }
    assert(met.whole > 2 && met.not > 2, JSON.stringify(met))
  })

  it('has all its frames', async (context) => {
    const random = mulberry32(seedOf(context))
    const { world, logId, segments } = await longFrames()
    const source = new LogSource(world.files, { ...LOG, logId })
    const { base } = segments[0]!
    const path = `${LOG.segmentsName}/${segmentName(base)}/${RECORDS_NAME}`
    const bytes = readWhole(world.files, `${LOG.directory}/${path}`)!
    const { end, chain } = source.scan(base, null)
    const arrival = new ArrivingSegment(source, {
      base,
      end,
      chain,
      file: { path, bytes: bytes.byteLength },
      sidecars: [],
    })
    feed(arrival, bytes.subarray(0, -MIB), random)
    assert(!arrival.isWhole())
  })

  it('is a stand-in whose content has the checksum of its header', (context) => {
    const random = mulberry32(seedOf(context))
    const { files } = new World({ seed: 1 })
    const base = 8192
    const content = payloadOf(1, 3 * MIB)
    const footer = { logId: 7, base, end: 16384, frameCount: 3, epoch: 1, lastHeaderCrc: 5 }
    const whole = Buffer.concat([encodeStandInHeader(footer, [content]), content])
    const source = new LogSource(files, { ...LOG, logId: 7 })
    for (const folder of [LOG.directory, `${LOG.directory}/segments`, source.pathOf(base)]) files.makeDirectory(folder)
    const place = files.create(`${source.pathOf(base)}/${STAND_IN_NAME}`)
    const arrives = (bytes: Buffer, fits = true): boolean => {
      place.writev([bytes], 0)
      const arrival = new ArrivingStandIn(source, base, STAND_IN_NAME, ({ end }) => fits && end === footer.end)
      feed(arrival, bytes, random)
      return arrival.isWhole()
    }
    for (let run = 0; run < 5; run += 1) {
      assert(arrives(whole))
      const flipped = Buffer.from(whole)
      flipped[Math.floor(random() * flipped.byteLength)]! ^= 1
      assert(!arrives(flipped))
    }
    assert(!arrives(whole, false))
    place.close()
  })
})
