/** Segments of a log in two simulated directories, compacted or merged, and what a start finds in each of them. */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import type { TestContext } from 'node:test'
import type { Files } from '../../src/log/files.ts'
import { makeDurableDirectory, publishFile } from '../../src/log/files.ts'
import { mergedName } from '../../src/log/merged.ts'
import { RECORDS_NAME, segmentName } from '../../src/log/segment-format.ts'
import { STAND_IN_NAME } from '../../src/log/stand-in.ts'
import { adoptCompacted } from '../../src/logstore/compact/adopt.ts'
import { adoptMerged } from '../../src/logstore/compact/adopt-merged.ts'
import { CompactIndex } from '../../src/logstore/compact/compact-index.ts'
import { mergeBundles } from '../../src/logstore/compact/merge-bundles.ts'
import { PieceCache } from '../../src/logstore/compact/piece-cache.ts'
import { readSegmentRecords } from '../../src/logstore/compact/segment-records.ts'
import { timeOfWords } from '../../src/logstore/time-words.ts'
import type { SimFiles } from './sim-files.ts'
import { LOG_ID, TRACES, TestStore } from './stored-segments.ts'

export const PRIMARY = '/data/bundles'
export const REPLICA = '/replica/bundles'
export const DIRECTORIES = [PRIMARY, REPLICA]

/** Segments of `batches` batches in several datasets. Times go back and forth over the segments; some records have no time, and some have equal texts. */
export function filledStore(context: TestContext, segments: number, batches = 2): TestStore {
  const store = TestStore.open(context)
  for (let batch = 0; batch < batches * segments; batch++) {
    store.add(
      batch % 5 === 0 ? 'globex' : 'acme',
      Array.from({ length: 8 }, (_, i) => ({
        dataset: i % 3 === 0 ? 'payments' : 'orders',
        time: i === 7 ? 0n : BigInt(1_000_000 + ((batch * 37) % 11) * 1000 + (i >> 1)),
        trace: i % 4 === 0 ? null : TRACES[(batch + i) % 3]!,
        text: i === 2 ? 'the same again and again' : `order ${batch * 8 + i} was paid in ${i} ms by c-${batch}x`,
        severity: 9 + (i % 2) * 8,
      })),
    )
    if (batch % batches === batches - 1) store.seal()
  }
  store.publish()
  return store
}

export interface Range {
  readonly base: number
  readonly end: number
}

export const rangesOf = ({ segments }: TestStore): readonly Range[] => segments.map(({ base, end }) => ({ base, end }))

/** The primary directory has all segments compacted; in the replica some are as they were. */
export function copyInto(files: SimFiles, plain: TestStore, compacted: TestStore): void {
  for (const [number, { base }] of rangesOf(plain).entries()) {
    for (const directory of DIRECTORIES) {
      const store = directory === REPLICA && number % 3 === 1 ? plain : compacted
      const target = `${directory}/${segmentName(base)}`
      makeDurableDirectory(files, target)
      for (const name of readdirSync(store.directoryOf(base))) {
        publishFile(files, target, name, [readFileSync(`${store.directoryOf(base)}/${name}`)])
      }
    }
  }
}

export const infosIn = (directory: string, ranges: readonly Range[]) =>
  ranges.map(({ base, end }) => {
    const segment = `${directory}/${segmentName(base)}`
    return { base, end, sealed: true, directory: segment, recordsPath: `${segment}/${RECORDS_NAME}` }
  })

/** The records that a start finds in a directory of the log, each once: place, id, time and bytes. */
export function ledgerOf(
  files: Files,
  directory: string,
  ranges: readonly Range[],
  isMeant: (dataset: string, time: bigint) => boolean = () => true,
): readonly string[] {
  const damage: unknown[] = []
  const log = { id: LOG_ID, reportDamage: (_segment: unknown, range: unknown) => void damage.push(range) }
  const segments = infosIn(directory, ranges)
  const merged = adoptMerged(files, log, segments)
  const lines: string[] = []
  for (const { base, end } of merged)
    lines.push(...linesOfCompact(files, `${directory}/${segmentName(base)}/${mergedName(end)}`, base, isMeant))
  for (const segment of segments) {
    const { base } = segment
    if (merged.some((over) => over.base <= base && base < over.end)) continue
    const isCompacted = adoptCompacted(files, log, segment) !== null
    lines.push(
      ...(isCompacted
        ? linesOfCompact(files, `${segment.directory}/${STAND_IN_NAME}`, base, isMeant)
        : linesOfPlain(files, segment)),
    )
  }
  assert.deepEqual(damage, [])
  return lines.sort()
}

const lineOf = (place: string, id: Uint32Array, time: string, bytes: Uint8Array): string =>
  `${place} ${[...id].join('.')} ${time} ${Buffer.from(bytes).toString('hex')}`

const placeOf = (position: number, number: number): string => `${String(position).padStart(9, '0')} ${number}`

function linesOfCompact(
  files: Files,
  path: string,
  base: number,
  isMeant: (dataset: string, time: bigint) => boolean,
): string[] {
  const file = files.open(path, 'read')
  const index = new CompactIndex(file, base, new PieceCache(1 << 20))
  const datasets = Array.from(index.partitions(), ({ dataset }) => dataset)
  const lines = Array.from({ length: index.entryCount }, (_, entry) => {
    index.seekEntry(entry)
    if (!isMeant(datasets[index.partition]!, timeOfWords(index.timeHigh, index.timeLow))) return []
    const { timeHigh, timeLow, frameOffset, recordNumber, unit, number } = index
    const { record } = index.records(index.blocks[unit]!).record(number)
    return lineOf(placeOf(base + frameOffset, recordNumber), index.idOf(entry), `${timeHigh} ${timeLow}`, record)
  })
  file.close()
  return lines.flat()
}

function linesOfPlain(files: Files, { base, end, recordsPath }: ReturnType<typeof infosIn>[number]): string[] {
  const file = files.open(recordsPath, 'read')
  const records = readSegmentRecords(file, LOG_ID, base, end)
  assert(records !== null)
  const { index, count } = records
  const { source, starts, ends } = records.read(Uint32Array.from({ length: count }, (_, entry) => entry))
  file.close()
  const lines = Array.from({ length: count }, (_, entry) => {
    const id = index.idWords.slice(4 * entry, 4 * entry + 4)
    const place = placeOf(base + index.frameOffset[entry]!, index.recordNumber[entry]!)
    return lineOf(
      place,
      id,
      `${index.timeHigh[entry]} ${index.timeLow[entry]}`,
      source.subarray(starts[entry], ends[entry]),
    )
  })
  records.free()
  return lines
}

export function stores(
  context: TestContext,
  segments: number,
): { readonly plain: TestStore; readonly compacted: TestStore } {
  const plain = filledStore(context, segments)
  const compacted = filledStore(context, segments)
  compacted.compact()
  assert(compacted.segments.every(({ row }) => row?.isCompacted === true))
  return { plain, compacted }
}

/** Merges as the background does: the bundles of these segments become one, as the primary directory has them. */
export function mergeRange(files: Files, ranges: readonly Range[], settles = true): string {
  const log = { id: LOG_ID, reportDamage: () => assert.fail('no damage') }
  const segments = infosIn(PRIMARY, ranges)
  const merged = adoptMerged(files, log, segments).map(({ base, end }) => ({ base, end, isMerged: true }))
  const isIn = ({ base }: Range): boolean => merged.some((over) => over.base <= base && base < over.end)
  const others = ranges.filter((range) => !isIn(range)).map((range) => ({ ...range, isMerged: false }))
  const bundles = [...merged, ...others].sort((a, b) => a.base - b.base)
  const task = { logId: LOG_ID, bundles, segments: ranges, segmentsDirectories: DIRECTORIES }
  const { kind } = mergeBundles(files, { ...task, kind: 'merge' }, () => true)
  if (kind === 'merged' && settles) mergeBundles(files, { ...task, kind: 'settle' }, () => true)
  return kind
}
