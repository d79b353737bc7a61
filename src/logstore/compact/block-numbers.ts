/**
 * Judges conditions on numbers by the number columns of a block, without making its records.
 *
 * N1  a value is what the view of the record gives (search/protobuf-values.ts, search/record-view.ts): a whole number that is not exact as a double is a bigint
 */
import type { FieldName } from '../search/names.ts'
import { LOG_FIELDS, SPAN_FIELDS, STATUS_FIELDS } from '../search/record-view.ts'
import type { ValueTest } from '../search/values.ts'
import type { BlockTexts } from './block-reader.ts'
import { BOOLEAN, DOUBLE, SEVERITY } from './otlp-fields.ts'
import { ROOT_LOG, ROOT_SPAN } from './record-shape.ts'
import { valuesIn } from './shapes.ts'
import type { Shape, Shapes } from './shapes.ts'
import { timeOf } from './value-columns.ts'
import type { NumberColumn } from './value-columns.ts'
import { MATCHES, MUST_READ, NO_MATCH, isKnown } from './verdict.ts'
import type { Verdict } from './verdict.ts'

const WORD = 2 ** 32
const double = new Float64Array(1)
const wordsOfDouble = new Uint32Array(double.buffer)

/** A whole number of two words, the high one with a sign. */
function wholeOf(high: number, low: number): number | bigint {
  const about = high * WORD + low // rounded at most once, so a number that is not safe does not look safe
  return Number.isSafeInteger(about) ? about : (BigInt(high) << 32n) + BigInt(low)
}

/** The value of an attribute whose number has these two words. @param kind of its column */
export function numberOf(kind: number, high: number, low: number): number | bigint | boolean {
  if (kind === BOOLEAN) return (high | low) !== 0
  if (kind !== DOUBLE) return wholeOf(high | 0, low)
  wordsOfDouble[0] = low
  wordsOfDouble[1] = high
  return double[0]!
}

/** One verdict for each value of a column of attribute numbers. @param kind of the column */
export function judgeNumbers({ pairs: { high, low, count } }: NumberColumn, kind: number, test: ValueTest): Uint8Array {
  const verdicts = new Uint8Array(count)
  for (let i = 0; i < count; i++) verdicts[i] = test(numberOf(kind, high[i]!, low[i]!)) ? MATCHES : NO_MATCH
  return verdicts
}

/** The paths of a field that is a small number, in logs or in spans. */
interface FieldPaths {
  readonly root: number
  /** The field as a varint, and as four bytes. If a record has both, the varint counts. */
  readonly varint: string
  readonly fixed: string
}

const pathsIn = (root: number, message: string, field: number): FieldPaths => ({
  root,
  varint: `${message}/${8 * field}`,
  fixed: `${message}/${8 * field + 5}`,
})

/** Null: the field is not a small number. */
export function pathsOf(field: FieldName): readonly FieldPaths[] | null {
  const paths: FieldPaths[] = []
  const [ofLog, ofSpan, ofStatus] = [LOG_FIELDS[field], SPAN_FIELDS[field], STATUS_FIELDS[field]]
  if (ofLog?.[2] === 'number') paths.push(pathsIn(ROOT_LOG, `${ROOT_LOG}`, ofLog[0]))
  if (ofSpan?.[2] === 'number') paths.push(pathsIn(ROOT_SPAN, `${ROOT_SPAN}`, ofSpan[0]))
  if (ofStatus?.[2] === 'number') paths.push(pathsIn(ROOT_SPAN, STATUS_PATH, ofStatus[0]))
  return paths.length > 0 ? paths : null
}

const SPAN_STATUS_TAG = 8 * 15 + 2
export const STATUS_PATH = `${ROOT_SPAN}/${SPAN_STATUS_TAG}`

/** Null: number columns do not hold the field. */
export function judgeOfField(
  field: FieldName,
  test: ValueTest,
): ((texts: BlockTexts, shapes: Shapes) => Verdict) | null {
  if (field === 'duration') return (texts, shapes) => judgeDurations(texts, shapes, test)
  const paths = pathsOf(field)
  if (paths === null) return null
  return (texts, shapes) => {
    const places = paths.map(({ root, varint, fixed }) => ({
      root,
      varint: valuesAt(texts, shapes, varint),
      fixed: valuesAt(texts, shapes, fixed),
    }))
    return byRow(
      texts,
      ({ root }) => {
        const place = places.find((each) => each.root === root)
        if (place === undefined) return null
        const { varint, fixed } = place
        return (row) => {
          const [at, fixedAt] = [varint?.of[row] ?? -1, fixed?.of[row] ?? -1]
          return at >= 0 ? varint!.low[at]! | 0 : fixedAt >= 0 ? fixed!.low[fixedAt]! : 0
        }
      },
      test,
    )
  }
}

const START_PATH = `${ROOT_SPAN}/${8 * 7 + 1}`
const END_PATH = `${ROOT_SPAN}/${8 * 8 + 1}`

/** Computes durations as `durationOf` does. A column stores times as steps from the time of their record, modulo 2^64. */
function judgeDurations(texts: BlockTexts, shapes: Shapes, test: ValueTest): Verdict {
  const start = valuesAt(texts, shapes, START_PATH)
  const end = valuesAt(texts, shapes, END_PATH)
  if (start === null || end === null) return byRow(texts, () => null, test)
  const { timeHigh, timeLow } = texts.keys()
  const [from, to] = [new Uint32Array(2), new Uint32Array(2)]
  const duration = (row: number): number | bigint | null => {
    const [startAt, endAt] = [start.of[row]!, end.of[row]!]
    if (startAt < 0 || endAt < 0) return null
    timeOf(start.high[startAt]!, start.low[startAt]!, timeHigh[row]!, timeLow[row]!, from)
    timeOf(end.high[endAt]!, end.low[endAt]!, timeHigh[row]!, timeLow[row]!, to)
    if (isZero(from) || isZero(to)) return null
    const isBefore = to[0]! < from[0]! || (to[0] === from[0] && to[1]! < from[1]!)
    return isBefore ? 0 : wholeOf(to[0]! - from[0]!, to[1]! - from[1]!)
  }
  return byRow(texts, ({ root }) => (root === ROOT_SPAN ? duration : null), test)
}

const isZero = ([high, low]: Uint32Array): boolean => high === 0 && low === 0

/**
 * One verdict for each row, for a value that a record has at most once.
 *
 * @param valueIn gives, for a shape, the function that reads the value of a row, or null if the row has none. Null: no row of the shape has the value
 */
function byRow(
  { shapes, rowShape }: BlockTexts,
  valueIn: (shape: Shape) => ((row: number) => number | bigint | null) | null,
  test: ValueTest,
): Uint8Array {
  const values = shapes.map((shape) => (isKnown(shape) ? valueIn(shape) : null))
  const without = shapes.map((shape) => (isKnown(shape) ? NO_MATCH : MUST_READ))
  const verdicts = new Uint8Array(rowShape.length)
  for (let row = 0; row < verdicts.length; row++) {
    const shape = rowShape[row]!
    const value = values[shape]?.(row) ?? null
    verdicts[row] = value === null ? without[shape]! : test(value) ? MATCHES : NO_MATCH
  }
  return verdicts
}

interface Values {
  readonly high: Uint32Array
  readonly low: Uint32Array
  /** By row: number of the first value of its record; -1: it has none. */
  readonly of: Int32Array
}

/** Null: no record of the block has a number at this path. */
function valuesAt(texts: BlockTexts, { columns }: Shapes, path: string): Values | null {
  const column = columns.findIndex((each) => each.path === path)
  if (!texts.counts.has(column)) return null
  const { pairs } = columns[column]!.kind === SEVERITY ? texts.severities.get(column)! : texts.numbers(column)
  const times = texts.shapes.map((shape) => valuesIn(shape, column))
  const of = new Int32Array(texts.rows)
  let at = 0
  for (let row = 0; row < of.length; row++) {
    const its = times[texts.rowShape[row]!]!
    of[row] = its === 0 ? -1 : at
    at += its
  }
  return { high: pairs.high, low: pairs.low, of }
}
