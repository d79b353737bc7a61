/**
 * Reads blocks, see block-writer.ts. A block is read in parts: its keys say where and when its rows are; its texts and numbers tell most searches which of
 * them match; with its values the records are there again, byte for byte.
 */
import type { RecordBatch, RecordPlace, StoredRecord } from '../batch-frame.ts'
import { FORMAT_JSON } from '../batch-frame.ts'
import { ByteReader } from './byte-reader.ts'
import { ByteWriter } from './byte-writer.ts'
import { TRACE_PATHS } from './block-writer.ts'
import type { Group } from './block-writer.ts'
import { readChoices, readNumbers, readPairs, skipPairs } from './number-columns.ts'
import { SEVERITY, TEXT } from './otlp-fields.ts'
import { RecordIds } from './record-ids.ts'
import { CLOSE, OPEN, STATIC, isNumber } from './shapes.ts'
import type { Shape, Shapes } from './shapes.ts'
import { TextColumn } from './text-column.ts'
import { BytesColumn, NumberColumn } from './value-columns.ts'
import { rootOf } from './block-writer.ts'
import { SIGNAL_LOG } from '../batch-frame.ts'

/** When each row is, and its entry in the segment. */
export class BlockKeys {
  readonly timeHigh: Uint32Array
  readonly timeLow: Uint32Array
  readonly entry: Uint32Array

  constructor(part: Buffer, rows: number, firstTime: bigint) {
    const from = new ByteReader(part)
    const { high, low } = readPairs(from, rows)
    let timeHigh = Number(firstTime >> 32n)
    let timeLow = Number(firstTime & 0xffff_ffffn)
    for (let row = 0; row < rows; row++) {
      const sum = timeLow + low[row]!
      timeHigh += high[row]! + (sum > 0xffff_ffff ? 1 : 0)
      timeLow = sum >>> 0
      high[row] = timeHigh
      low[row] = timeLow
    }
    this.timeHigh = high
    this.timeLow = low
    this.entry = Uint32Array.from(readNumbers(from, rows))
  }
}

/** Parts of a block that are read only when they are needed. */
export interface MoreParts {
  keys(): BlockKeys
  numbers(): Buffer
  values(): Buffer
}

/** What stands in the values of a block beside texts. */
interface BlockValues {
  readonly bytes: ReadonlyMap<number, BytesColumn>
  readonly explicitIds: ReadonlyMap<number, Uint32Array>
  readonly explicitTraces: ReadonlyMap<number, Uint32Array>
  readonly length: number
}

/** What of a block is in its texts, and in its numbers. */
export class BlockTexts {
  readonly rows: number
  readonly groups: readonly Group[]
  readonly rowGroup: Uint16Array
  /** The shapes of the rows, which `rowShape` names by their number. */
  readonly shapes: readonly Shape[]
  readonly rowShape: Uint16Array
  /** By number in the bundle, ascending: how many values each has. */
  readonly counts: ReadonlyMap<number, number>
  readonly texts = new Map<number, TextColumn>()
  readonly severities = new Map<number, NumberColumn>()
  readonly #bundle: Shapes
  readonly #more: MoreParts
  #values: BlockValues | null = null
  #numbers: ByteReader | null = null
  readonly #numbersAt = new Map<number, number>()

  constructor(part: Buffer, rows: number, bundle: Shapes, more: MoreParts) {
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

  /** The values of a column of numbers that is no severity; from the first one on, at each call. */
  numbers(column: number): NumberColumn {
    this.#numbers ??= this.#findNumbers()
    this.#numbers.at = this.#numbersAt.get(column)!
    return new NumberColumn(this.#numbers, this.counts.get(column)!, this.#bundle.columns[column]!.kind)
  }

  /** From then on the columns of texts have their values. */
  values(): BlockValues {
    return (this.#values ??= this.#readValues(new ByteReader(this.#more.values())))
  }

  #readValues(from: ByteReader): BlockValues {
    const bytes = new Map<number, BytesColumn>()
    for (const [number, count] of this.counts) {
      const { kind } = this.#bundle.columns[number]!
      if (kind === TEXT) this.texts.get(number)!.readValues(from)
      else if (!isNumber(kind)) bytes.set(number, new BytesColumn(from, count))
    }
    return { bytes, explicitIds: readWords(from), explicitTraces: readWords(from), length: from.bytes.byteLength }
  }

  #findNumbers(): ByteReader {
    const from = new ByteReader(this.#more.numbers())
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

interface GroupPlace {
  readonly scopeStart: number
  readonly scopeEnd: number
  readonly resourceStart: number
  readonly resourceEnd: number
}

type ColumnReader = TextColumn | NumberColumn | BytesColumn

/** The names that a partition gives the records of its blocks. */
export interface BlockOwner {
  readonly tenant: string
  readonly dataset: string
}

/** The records of a block. */
export class BlockRecords implements RecordBatch {
  readonly recordCount: number
  readonly body: Buffer
  readonly mayHaveEscapes: boolean
  readonly groups: readonly Group[]
  readonly rowGroup: Uint16Array
  readonly ids: RecordIds
  readonly #owner: BlockOwner
  readonly #starts: Uint32Array
  readonly #groupPlaces: readonly GroupPlace[]
  readonly #traces: Uint32Array
  readonly #place: RecordPlace = {
    group: -1,
    recordStart: 0,
    recordEnd: 0,
    scopeStart: 0,
    scopeEnd: 0,
    resourceStart: 0,
    resourceEnd: 0,
  }

  /** @param texts of which nothing was written yet */
  constructor(texts: BlockTexts, keys: BlockKeys, bundle: Shapes, owner: BlockOwner) {
    const { rows, groups, rowGroup } = texts
    this.recordCount = rows
    this.groups = groups
    this.rowGroup = rowGroup
    this.#owner = owner
    const { bytes, explicitIds, explicitTraces, length } = texts.values()
    const columns = columnsOf(texts, bytes, bundle)
    const into = new ByteWriter(4 * length + 4096)
    this.#groupPlaces = groups.map(({ resource, scope }) => {
      const resourceStart = into.at
      into.copy(resource)
      const scopeStart = into.at
      into.copy(scope)
      const none = { resourceStart: 0, resourceEnd: 0, scopeStart: 0, scopeEnd: 0 }
      return {
        ...none,
        ...(resource.byteLength > 0 && { resourceStart, resourceEnd: scopeStart }),
        ...(scope.byteLength > 0 && { scopeStart, scopeEnd: into.at }),
      }
    })
    this.#starts = new Uint32Array(rows + 1)
    this.#traces = new Uint32Array(4 * rows)
    const isTrace = new Set(bundle.columns.flatMap(({ path }, number) => (TRACE_PATHS.includes(path) ? [number] : [])))
    for (let row = 0; row < rows; row++) {
      this.#starts[row] = into.at
      const shape = texts.shapes[texts.rowShape[row]!]!
      this.#writeRecord(into, shape, columns, row, keys.timeHigh[row]!, keys.timeLow[row]!, isTrace)
    }
    this.#starts[rows] = into.at
    for (const [row, words] of explicitTraces) this.#traces.set(words, 4 * row)
    this.body = into.written()
    this.mayHaveEscapes = groups.some(({ format }) => format === FORMAT_JSON) && this.body.includes(0x5c)
    this.ids = new RecordIds(this, this.#starts, owner, explicitIds)
  }

  #writeRecord(
    into: ByteWriter,
    { steps, isIrregular }: Shape,
    columns: readonly (ColumnReader | undefined)[],
    row: number,
    timeHigh: number,
    timeLow: number,
    isTrace: ReadonlySet<number>,
  ): void {
    const opened: number[] = []
    for (let i = 0; i < steps.length; i++) {
      const { does, bytes, column } = steps[i]!
      if (does === STATIC) into.copy(bytes)
      else if (does === OPEN) {
        into.byte(0)
        opened.push(into.at)
      } else if (does === CLOSE) closeAt(into, opened.pop()!)
      else {
        const start = into.at
        columns[column]!.writeNext(into, timeHigh, timeLow)
        if (isTrace.has(column) && !isIrregular && into.at - start === 16) this.#setTrace(row, into.bytes, start)
      }
    }
  }

  #setTrace(row: number, bytes: Buffer, at: number): void {
    for (let word = 0; word < 4; word++) this.#traces[4 * row + word] = bytes.readUInt32BE(at + 4 * word)
  }

  hasTrace(row: number, trace: Uint32Array): boolean {
    for (let word = 0; word < 4; word++) if (this.#traces[4 * row + word] !== trace[word]) return false
    return true
  }

  /** Four words; zeros: none. */
  traceOf(row: number): Uint32Array {
    return this.#traces.subarray(4 * row, 4 * row + 4)
  }

  envelopeOf(row: number) {
    const { signal, format, source } = this.groups[this.rowGroup[row]!]!
    return { signal, format, source, tenant: this.#owner.tenant }
  }

  placeOf(row: number): RecordPlace {
    const place = this.#place
    const group = this.rowGroup[row]!
    place.recordStart = this.#starts[row]!
    place.recordEnd = this.#starts[row + 1]!
    if (group !== place.group) Object.assign(place, this.#groupPlaces[group]!, { group })
    return place
  }

  record(row: number): StoredRecord {
    const group = this.rowGroup[row]!
    const { resourceSchemaUrl, scopeSchemaUrl } = this.groups[group]!
    const { resourceStart, resourceEnd, scopeStart, scopeEnd } = this.#groupPlaces[group]!
    const { body } = this
    return {
      resource: body.subarray(resourceStart, resourceEnd),
      scope: body.subarray(scopeStart, scopeEnd),
      record: body.subarray(this.#starts[row], this.#starts[row + 1]),
      resourceSchemaUrl,
      scopeSchemaUrl,
      dataset: this.#owner.dataset,
      collapsed: false,
    }
  }
}

function columnsOf(
  texts: BlockTexts,
  bytes: BlockValues['bytes'],
  bundle: Shapes,
): readonly (ColumnReader | undefined)[] {
  const columns: (ColumnReader | undefined)[] = []
  for (const number of texts.counts.keys()) {
    const { kind } = bundle.columns[number]!
    if (kind === TEXT) columns[number] = texts.texts.get(number)!
    else if (kind === SEVERITY) columns[number] = texts.severities.get(number)!
    else columns[number] = isNumber(kind) ? texts.numbers(number) : bytes.get(number)!
  }
  return columns
}

/** What stands behind `start` gets its length in front, where one byte was kept for it. */
function closeAt(into: ByteWriter, start: number): void {
  const length = into.at - start
  if (length < 128) {
    into.bytes[start - 1] = length
    return
  }
  const more = length < 1 << 14 ? 1 : length < 1 << 21 ? 2 : 3
  into.reserve(more)
  into.bytes.copyWithin(start + more, start, into.at)
  const end = into.at + more
  into.at = start - 1
  into.varint(length)
  into.at = end
}

function readWords(from: ByteReader): Map<number, Uint32Array> {
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
