/**
 * Reads blocks (block-writer.ts) part by part. The keys have the time and entry of each row, and texts and numbers tell most searches which rows match.
 * With the values, the records can be made again (block-records.ts).
 */
import { freeMemory } from '../../free-memory.ts'
import { FORMAT_JSON } from '../batch-frame.ts'
import { ByteReader } from './byte-reader.ts'
import type { Group } from './block-writer.ts'
import { readChoices, readNumbers, readPairs, readWords, skipPairs } from './number-columns.ts'
import { SEVERITY, TEXT } from './otlp-fields.ts'
import { isNumber } from './shapes.ts'
import type { Shape, Shapes } from './shapes.ts'
import { TextColumn } from './text-column.ts'
import { BytesColumn, NumberColumn } from './value-columns.ts'
import { rootOf } from './block-writer.ts'
import { SIGNAL_LOG } from '../batch-frame.ts'
import { highWord, lowWord } from '../time-words.ts'

/** The time of each row, and its entry in the segment. */
export class BlockKeys {
  readonly timeHigh: Uint32Array
  readonly timeLow: Uint32Array
  readonly entry: Uint32Array
  /** Bytes in memory: many times what is stored, if times and entries grow evenly. */
  readonly heldBytes: number

  constructor(part: Buffer, rows: number, firstTime: bigint) {
    this.heldBytes = 3 * Uint32Array.BYTES_PER_ELEMENT * rows
    const from = new ByteReader(part)
    const { high, low } = readPairs(from, rows)
    let timeHigh = highWord(firstTime)
    let timeLow = lowWord(firstTime)
    for (let row = 0; row < rows; row++) {
      const sum = timeLow + low[row]!
      timeHigh += high[row]! + (sum > 0xffff_ffff ? 1 : 0)
      timeLow = sum >>> 0
      high[row] = timeHigh
      low[row] = timeLow
    }
    this.timeHigh = high
    this.timeLow = low
    this.entry = readWords(from, rows)
  }
}

/** Parts of a block that are read only when they are needed. */
export interface MoreParts {
  keys(): BlockKeys
  numbers(): Buffer<ArrayBuffer>
  values(): Buffer<ArrayBuffer>
}

/** What the values part of a block has beside texts. */
export interface BlockValues {
  readonly bytes: ReadonlyMap<number, BytesColumn>
  readonly explicitIds: ReadonlyMap<number, Uint32Array>
  readonly explicitTraces: ReadonlyMap<number, Uint32Array>
  readonly length: number
}

/** The texts and numbers of a block. */
export class BlockTexts {
  readonly rows: number
  readonly groups: readonly Group[]
  readonly rowGroup: Uint16Array
  /** The shapes of the rows, which `rowShape` names by their number. */
  readonly shapes: readonly Shape[]
  readonly rowShape: Uint16Array
  /** By number of a column in the bundle, ascending: how many values the column has in the block. */
  readonly counts: ReadonlyMap<number, number>
  readonly texts = new Map<number, TextColumn>()
  readonly severities = new Map<number, NumberColumn>()
  readonly #bundle: Shapes
  readonly #more: MoreParts
  /** The parts that were read, each in memory of its own. */
  readonly #parts: Buffer<ArrayBuffer>[]
  #values: BlockValues | null = null
  #numbers: ByteReader | null = null
  readonly #numbersAt = new Map<number, number>()

  constructor(part: Buffer<ArrayBuffer>, rows: number, bundle: Shapes, more: MoreParts) {
    this.#parts = [part]
    this.#bundle = bundle
    this.#more = more
    const from = new ByteReader(part)
    this.rows = rows
    this.groups = Array.from({ length: from.varint() }, () => readGroup(from))
    this.rowGroup = readChoices(from, rows, this.groups.length)
    this.shapes = Array.from({ length: from.varint() }, () => bundle.all[from.varint()]!)
    this.rowShape = readChoices(from, rows, this.shapes.length)
    this.counts = countValues(this.shapes, this.rowShape)
    for (const [column, count] of this.counts) {
      const { kind } = bundle.columns[column]!
      if (kind === TEXT) this.texts.set(column, new TextColumn(from, count))
      else if (kind === SEVERITY) this.severities.set(column, new NumberColumn(from, count, kind))
    }
  }

  keys(): BlockKeys {
    return this.#more.keys()
  }

  /** A column of numbers other than severities. Each call makes a new object. */
  numbers(column: number): NumberColumn {
    this.#numbers ??= this.#findNumbers()
    this.#numbers.at = this.#numbersAt.get(column)!
    return new NumberColumn(this.#numbers, this.counts.get(column)!, this.#bundle.columns[column]!.kind)
  }

  /** Reads the values part: from then on the columns of texts have their values. */
  values(): BlockValues {
    return (this.#values ??= this.#readValues(new ByteReader(this.#kept(this.#more.values()))))
  }

  /** Frees the memory of its parts. Nothing that was read from them may be used any more. */
  free(): void {
    this.#parts.forEach(freeMemory)
  }

  #kept(part: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    this.#parts.push(part)
    return part
  }

  #readValues(from: ByteReader): BlockValues {
    const bytes = new Map<number, BytesColumn>()
    for (const [number, count] of this.counts) {
      const { kind } = this.#bundle.columns[number]!
      if (kind === TEXT) this.texts.get(number)!.readValues(from)
      else if (!isNumber(kind)) bytes.set(number, new BytesColumn(from, count))
    }
    return { bytes, explicitIds: readIds(from), explicitTraces: readIds(from), length: from.bytes.byteLength }
  }

  #findNumbers(): ByteReader {
    const from = new ByteReader(this.#kept(this.#more.numbers()))
    for (const [column, count] of this.counts) {
      const { kind } = this.#bundle.columns[column]!
      if (!isNumber(kind) || kind === SEVERITY) continue
      this.#numbersAt.set(column, from.at)
      skipPairs(from, count)
    }
    return from
  }
}

function countValues(shapes: readonly Shape[], rowShape: Uint16Array): Map<number, number> {
  const rows = new Uint32Array(shapes.length)
  for (const shape of rowShape) rows[shape]!++
  const counts = new Map<number, number>()
  for (const [number, { columns }] of shapes.entries()) {
    for (const column of columns) counts.set(column, (counts.get(column) ?? 0) + rows[number]!)
  }
  return new Map([...counts].sort(([a], [b]) => a - b))
}

function readGroup(from: ByteReader): Group {
  const signal = from.byte()
  const format = from.byte()
  const source = from.byte()
  const [resource, scope, resourceSchemaUrl, scopeSchemaUrl] = Array.from({ length: 4 }, () => from.lengthAndBytes())
  const root = rootOf(format === FORMAT_JSON, signal === SIGNAL_LOG)
  return {
    signal,
    format,
    source,
    resource: resource!,
    scope: scope!,
    resourceSchemaUrl: resourceSchemaUrl!,
    scopeSchemaUrl: scopeSchemaUrl!,
    root,
  }
}

function readIds(from: ByteReader): Map<number, Uint32Array> {
  const count = from.varint()
  const rows = readNumbers(from, count)
  const words = new Map<number, Uint32Array>()
  for (const row of rows)
    words.set(
      row,
      Uint32Array.from({ length: 4 }, () => from.u32()),
    )
  return words
}
