/**
 * Damage to any stored file, sampled: the file ends early at a byte, a bit flips, the file is gone. Then the store is opened
 * on it and asked for everything. The result must be one of these:
 *
 *   refusal   a start that says in one line what is wrong
 *   right     every record, as it was
 *   signed    every record that is shown is right; the answer counts those that are missing, or the ranges they were in
 *
 * A query that meets damage fails first, naming the bundle. It is answered once the damage that it found is repaired. Never: a record with
 * other content, a record that is missing without a sign, a crash.
 */
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { testSeed } from '../../support/seed.ts'
import { Load, UNLIMITED, bundlesOf } from '../../../scripts/soak/logstore/load.ts'
import { mix32, Random } from '../../../bench/load/random.ts'
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import type { Log } from '../../../src/log/log.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { replaySegment } from '../../../src/log/read.ts'
import { eventually } from '../../support/waiting.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { LogStoreServer } from '../../support/logstore.ts'
import { OpenedCopy, indexJobs, isRefusal } from './opened-copy.ts'
import type { StoredRecord } from './opened-copy.ts'

const seed = testSeed()
const CASES_PER_FILE = Number(process.env['SOAK_CASES'] ?? 3)
const DATASET = 'soak'

const jobs = indexJobs()
after(() => jobs.close({ withinMs: 1000 }))

/** The undamaged store: its directory, and every record by its id. */
let pristine = ''
const expected = new Map<string, string>()
/** Frames of sealed and active segments. */
let frames: { path: string; at: number; bytes: number }[] = []
let active = ''
const sealed = 'bundles/0000000000000000'

interface Damage {
  readonly file: string
  readonly how: string
  apply(path: string): void
}

const cut = (file: string, at: number): Damage => ({
  file,
  how: `${file} cut at byte ${at}`,
  apply: (path) => fs.truncateSync(path, at),
})

const flip = (file: string, at: number, bit: number): Damage => ({
  file,
  how: `${file} with bit ${bit} of byte ${at} flipped`,
  apply(path) {
    const bytes = fs.readFileSync(path)
    bytes[at]! ^= 1 << bit
    fs.writeFileSync(path, bytes)
  },
})

const gone = (file: string): Damage => ({ file, how: `${file} gone`, apply: (path) => fs.unlinkSync(path) })

before(async () => {
  const server = await LogStoreServer.start({
    policy: [UNLIMITED],
    env: { LOGSTORE_SEGMENT_BYTES: String(1 << 20), LOGSTORE_COMPACTION: 'off' },
  })
  // Few records in many frames, and not many more frames than fill a segment.
  const load = Load.start(server, { seed: 1, connections: 4, recordsPerBatch: 2, recordBytes: 8000 })
  await load.during(eventually(async () => (await bundlesOf(server)) > 0))
  await load.stop()
  await server.stop()
  pristine = server.dataDirectory
  const segments = fs.readdirSync(`${pristine}/bundles`).filter((name) => /^[0-9a-f]{16}$/.test(name))
  active = `bundles/${segments.sort().at(-1)!}`

  const copy = copied()
  const opened = await OpenedCopy.open(copy, jobs)
  for (const record of (await opened.all(DATASET)).records) expected.set(record.record_id, JSON.stringify(record))
  assert.equal(expected.size, load.batches.acknowledgedRecords)
  frames = [sealed, active].flatMap((directory) => framesOf(directory, opened.log))
  await opened.close()
})

function framesOf(directory: string, log: Log): typeof frames {
  const base = Number.parseInt(directory.slice(-16), 16)
  const to = log.segments.find((segment) => segment.base === base)!.end
  const found: typeof frames = []
  const onFrame = ({ position, payloadBytes }: { position: number; payloadBytes: number }): void => {
    found.push({ path: `${directory}/records.log`, at: position - base, bytes: payloadBytes })
  }
  const recordsPath = `${pristine}/${directory}/records.log`
  replaySegment(nodeFiles, { base, recordsPath }, { logId: log.id, to, onFrame, onDamage: () => assert.fail() })
  return found
}

function copied(): string {
  const directory = temporaryDirectory()
  fs.cpSync(pristine, directory, { recursive: true })
  return directory
}

type Outcome = 'refusal' | 'right' | 'signed'

/** Checks that everything the store answers is right, or missing with a sign. */
async function assertTrue(opened: OpenedCopy, random: Random): Promise<Outcome> {
  const { records, matched, quarantined, damagedRanges } = await opened.all(DATASET)
  for (const record of records) assertSame(record)
  assert.equal(new Set(records.map(({ record_id: id }) => id)).size, records.length, 'a record is shown twice')
  assert.equal(records.length, matched)

  const ids = [...expected.keys()]
  let missing = expected.size - records.length
  for (let sample = 0; sample < 5; sample++) {
    const id = ids[random.between(0, ids.length - 1)]!
    const byId = await opened.query({ dataset: DATASET, filter: { record_id: id } })
    for (const { record } of byId.results) assertSame(record)
    const isShown = records.some(({ record_id: shown }) => shown === id)
    assert.equal(byId.results.length, isShown ? 1 : 0)
    const { trace_id: trace } = JSON.parse(expected.get(id)!) as StoredRecord
    const byTrace = await opened.query({ dataset: DATASET, filter: { trace_id: trace } })
    for (const { record } of byTrace.results) assertSame(record)
    assert.equal(byTrace.matched_records, records.filter(({ trace_id: shown }) => shown === trace).length)
  }
  if (missing === 0) return 'right'
  missing -= quarantined
  assert(missing >= 0)
  assert(damagedRanges > 0, `${missing} records are missing without a sign in the answer`)
  assert(opened.log.incidents.length > 0)
  return 'signed'
}

function assertSame(record: StoredRecord): void {
  assert.equal(JSON.stringify(record), expected.get(record.record_id), 'a record has other content')
}

/** Opens the damaged copy twice and asks the same: what the first opening repaired and wrote down holds for the second. */
async function outcomeOf(directory: string, random: Random): Promise<Outcome> {
  const questions = random.between(0, 2 ** 32 - 1)
  let first: OpenedCopy
  try {
    first = await OpenedCopy.open(directory, jobs)
  } catch (error) {
    if (!isRefusal(error)) throw error
    assert.match(error.message, /^[^\n]{10,}$/)
    return 'refusal'
  }
  const outcome = await assertTrue(first, new Random(questions))
  await first.close()
  const second = await OpenedCopy.open(directory, jobs)
  const again = await assertTrue(second, new Random(questions))
  assert.deepEqual(second.errors, [], 'what a query found damaged is repaired, or known from then on')
  await second.close()
  assert.equal(again, outcome)
  return outcome
}

async function run(random: Random, damages: readonly Damage[]): Promise<Map<Outcome, number>> {
  const outcomes = new Map<Outcome, number>()
  for (const damage of damages) {
    const directory = copied()
    damage.apply(`${directory}/${damage.file}`)
    try {
      const outcome = await outcomeOf(directory, random)
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      throw new Error(`${damage.how} (TRILOG_TEST_SEED=${seed}): ${problem}`, { cause: error })
    }
    fs.rmSync(directory, { recursive: true })
  }
  return outcomes
}

/** Damages of a file: cuts and flips anywhere in it, and the file gone. */
function anywhere(random: Random, file: string, count = CASES_PER_FILE): Damage[] {
  const bytes = fs.statSync(`${pristine}/${file}`).size
  const somewhere = (): number => random.between(0, bytes - 1)
  const cuts = [0, bytes - 1, ...Array.from({ length: count / 2 - 2 }, somewhere)].map((at) => cut(file, at))
  const flips = Array.from({ length: count / 2 }, () => flip(file, somewhere(), random.between(0, 7)))
  return [gone(file), ...cuts, ...flips]
}

/** Flips inside a range of a file. */
const inside = (random: Random, file: string, from: number, to: number, count = CASES_PER_FILE): Damage[] =>
  Array.from({ length: count }, () => flip(file, random.between(from, to - 1), random.between(0, 7)))

describe(`a damaged file (TRILOG_TEST_SEED=${seed})`, () => {
  const random = new Random(mix32(seed))
  const sizeOf = (file: string): number => fs.statSync(`${pristine}/${file}`).size

  it('FORMAT is refused, or not damaged where it counts', async () => {
    const outcomes = await run(random, anywhere(random, 'FORMAT'))
    assert(!outcomes.has('signed'))
    assert((outcomes.get('refusal') ?? 0) > 0)
  })

  for (const file of ['DURABLE', 'LOCK'] as const) {
    it(`${file} costs no record`, async () => {
      assert.deepEqual([...(await run(random, anywhere(random, file))).keys()], ['right'])
    })
  }

  it('manifest.json of a bundle is built again', async () => {
    assert.deepEqual([...(await run(random, anywhere(random, `${sealed}/manifest.json`))).keys()], ['right'])
  })

  it('index.bin of a bundle is built again, header, checksums and blocks', async () => {
    const file = `${sealed}/index.bin`
    const damages = [...anywhere(random, file), ...inside(random, file, 0, 512), ...inside(random, file, 0, 4096)]
    assert.deepEqual([...(await run(random, damages)).keys()], ['right'])
  })

  it('records.log of a bundle loses what is damaged, with a sign, and nothing else', async () => {
    const file = `${sealed}/records.log`
    const header = inside(random, file, 0, 64)
    const footer = inside(random, file, sizeOf(file) - 64, sizeOf(file))
    const outcomes = await run(random, [...anywhere(random, file), ...header, ...footer])
    assert((outcomes.get('signed') ?? 0) > 0)
  })

  it('records.log of the segment that is written loses what is damaged, with a sign, and nothing else', async () => {
    const file = `${active}/records.log`
    const outcomes = await run(random, [...anywhere(random, file), ...inside(random, file, 0, 64)])
    assert((outcomes.get('signed') ?? 0) > 0)
  })

  it('records.log with a flip in the header or the payload of a frame loses that frame, and no other', async () => {
    const chosen = Array.from({ length: CASES_PER_FILE }, () => frames[random.between(0, frames.length - 1)]!)
    const damages = chosen.flatMap(({ path, at, bytes }) => [
      ...inside(random, path, at, at + FRAME_HEADER_BYTES, 1),
      ...inside(random, path, at + FRAME_HEADER_BYTES, at + FRAME_HEADER_BYTES + bytes, 1),
    ])
    await run(random, damages)
  })

  it('quarantine.json does not hide the damage it tells of', async () => {
    const { path, at } = frames[0]!
    const known: Damage = flip(path, at + FRAME_HEADER_BYTES, 0)
    const file = `${sealed}/quarantine.json`
    const directory = copied()
    known.apply(`${directory}/${path}`)
    assert.equal(await outcomeOf(directory, random), 'signed')
    const bytes = fs.statSync(`${directory}/${file}`).size
    const damages = [gone(file), cut(file, 0), cut(file, bytes - 1), ...inside(random, file, 0, bytes)]
    for (const damage of damages) {
      const twice = temporaryDirectory()
      fs.cpSync(directory, twice, { recursive: true })
      damage.apply(`${twice}/${file}`)
      assert.equal(await outcomeOf(twice, random), 'signed', damage.how)
    }
  })
})
