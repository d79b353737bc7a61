/** Tasks for the reader, and its results. */
import assert from 'node:assert/strict'
import type { NewRecord } from '../../../src/broker/frames.ts'
import { PLACE_NUMBERS, Places } from '../../../src/broker/records/places.ts'
import { READ_DELIVERIES } from '../../../src/broker/records/read-protocol.ts'
import type { ReadKind, ReadResult, ReadTask } from '../../../src/broker/records/read-protocol.ts'
import { INGEST_TIME_MS, shownRecord } from './support.ts'
import type { StoredStream } from './support.ts'

export interface Ask {
  readonly kind: ReadKind
  readonly audited?: boolean
  readonly argument?: number
  readonly places: Places
}

export const taskOf = (stream: StoredStream, asks: readonly Ask[]): ReadTask => ({
  readable: stream.readable,
  requests: Float64Array.from(
    asks.flatMap(({ kind, audited = false, argument = 0, places }) => [
      kind,
      audited ? 1 : 0,
      argument,
      places.count,
      ...places.numbers.subarray(0, PLACE_NUMBERS * places.count),
    ]),
  ),
})

export function placesOf(stream: StoredStream, offsets: readonly number[]): Places {
  const places = new Places(offsets.length)
  for (const offset of offsets) assert.ok(stream.index.find(offset, places), `there is no record ${offset}`)
  return places
}

export const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n)
export const textOf = ({ text }: ReadResult, begin: number, end: number): string =>
  Buffer.from(text).toString('utf8', begin, end)

/** The records of the first request, for deliveries; null: a record could not be read. */
export function delivered(result: ReadResult, count: number): unknown[] {
  return upTo(count).map((n) => {
    const json = textOf(result, result.numbers[n]!, result.numbers[n + 1]!)
    return json === '' ? null : (JSON.parse(json) as unknown)
  })
}

export function read(stream: StoredStream, offsets: readonly number[], reader = stream.reader): unknown[] {
  const result = reader.run(taskOf(stream, [{ kind: READ_DELIVERIES, places: placesOf(stream, offsets) }]))
  return delivered(result, offsets.length)
}

export const shown = (records: readonly NewRecord[]): object[] =>
  records.map((record, n) => shownRecord(record, n, INGEST_TIME_MS))
