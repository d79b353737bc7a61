/**
 * The records of a block, byte for byte. A record is made when it is asked for: a page needs few of them, and a search only those that the columns cannot
 * decide.
 *
 * R1  bytes that were handed out do not change: records are appended to those that were made before, or go to other memory
 */
import assert from 'node:assert/strict'
import { freeMemory } from '../../free-memory.ts'
import type { RecordBatch, RecordPlace, StoredRecord } from '../batch-frame.ts'
import { FORMAT_JSON, noPlace } from '../batch-frame.ts'
import type { BlockKeys, BlockTexts, BlockValues } from './block-reader.ts'
import { TRACE_PATHS } from './block-writer.ts'
import type { Group } from './block-writer.ts'
import { ByteWriter } from './byte-writer.ts'
import { SEVERITY, TEXT } from './otlp-fields.ts'
import { RecordIds } from './record-ids.ts'
import { isNumber } from './shapes.ts'
import type { Shape, Shapes } from './shapes.ts'
import type { TextColumn } from './text-column.ts'
import { BytesColumn } from './value-columns.ts'
import type { NumberColumn } from './value-columns.ts'

interface GroupPlace {
  readonly scopeStart: number
  readonly scopeEnd: number
  readonly resourceStart: number
  readonly resourceEnd: number
}

type ColumnReader = TextColumn | NumberColumn | BytesColumn

/** The names of the partition that the records belong to. */
export interface BlockOwner {
  readonly tenant: string
  readonly dataset: string
}

const NOT_MADE = 0xffff_ffff
const BODY_BYTES = 16 * 1024
/** Records take about this many times the bytes of their values. */
const BYTES_OF_VALUE = 6

export class BlockRecords implements RecordBatch {
  readonly recordCount: number
  readonly groups: readonly Group[]
  readonly rowGroup: Uint16Array
  readonly ids: RecordIds
  /** Estimated bytes in memory once all records are made. */
  readonly heldBytes: number
  readonly #owner: BlockOwner
  readonly #texts: BlockTexts
  readonly #keys: BlockKeys
  readonly #columns: readonly (ColumnReader | undefined)[]
  /** Columns of trace ids. */
  readonly #traceColumns: ReadonlySet<number>
  #groupPlaces: readonly GroupPlace[]
  readonly #explicitTraces: ReadonlyMap<number, Uint32Array>
  readonly #explicitIds: ReadonlyMap<number, Uint32Array>
  readonly #traces: Uint32Array
  #into = new ByteWriter(BODY_BYTES)
  /** By row: where its record begins in the body, or NOT_MADE; then where it ends. */
  readonly #starts: Uint32Array
  readonly #ends: Uint32Array
  /** The row that the columns are at, and by column the number of the next value. */
  #row = 0
  readonly #next: Uint32Array
  readonly #passed: Uint32Array
  readonly #place = noPlace()
  /** Where the contents of the messages begin that are being written. */
  readonly #opened: number[] = []

  constructor(texts: BlockTexts, keys: BlockKeys, bundle: Shapes, owner: BlockOwner) {
    const { rows, groups, rowGroup, shapes } = texts
    this.recordCount = rows
    this.groups = groups
    this.rowGroup = rowGroup
    this.#owner = owner
    this.#texts = texts
    this.#keys = keys
    const { bytes, explicitIds, explicitTraces, length } = texts.values()
    this.heldBytes = BYTES_OF_VALUE * length + 32 * rows
    this.#columns = columnsOf(texts, bytes, bundle)
    this.#traceColumns = new Set(
      bundle.columns.flatMap(({ path }, number) => (TRACE_PATHS.includes(path) ? [number] : [])),
    )
    this.#next = new Uint32Array(bundle.columns.length)
    this.#passed = new Uint32Array(shapes.length)
    this.#groupPlaces = groups.map((group) => this.#writeGroup(group))
    this.#starts = new Uint32Array(rows).fill(NOT_MADE)
    this.#ends = new Uint32Array(rows)
    this.#explicitTraces = explicitTraces
    this.#explicitIds = explicitIds
    this.#traces = new Uint32Array(4 * rows)
    for (const [row, words] of explicitTraces) this.#traces.set(words, 4 * row)
    const madeTo = (from: number, to: number) => {
      this.#makeRows(from, to)
      return { body: this.body, starts: this.#starts, ends: this.#ends }
    }
    this.ids = new RecordIds({ recordCount: rows, groups, rowGroup, owner, madeTo }, explicitIds)
  }

  get body(): Buffer {
    return this.#into.written()
  }

  /** Frees the memory of the records that were made. Nothing may be read any more. */
  free(): void {
    freeMemory(this.#into.bytes)
  }

  get mayHaveEscapes(): boolean {
    return this.groups.some(({ format }) => format === FORMAT_JSON) && this.body.includes(0x5c)
  }

  gather(numbers: Uint16Array, count: number): void {
    let before = -1
    let areInOrder = true
    for (let i = 0; i < count; i++) {
      const start = this.#starts[numbers[i]!]!
      if (start === NOT_MADE || start < before) areInOrder = false
      before = start
    }
    if (areInOrder) return
    if (this.#into.at > 2 * this.heldBytes) return this.#makeRows(0, this.recordCount)
    for (let i = 0; i < count; i++) this.#make(numbers[i]!)
  }

  /** Makes all rows of a range, one behind the other. */
  #makeRows(from: number, to: number): void {
    if (to - from === 1) {
      if (this.#starts[from] === NOT_MADE) this.#make(from)
      return
    }
    let areInOrder = true
    for (let row = from; row < to; row++) {
      const start = this.#starts[row]!
      if (start === NOT_MADE || (row > from && start !== this.#ends[row - 1])) areInOrder = false
    }
    if (areInOrder) return
    const isWhole = from === 0 && to === this.recordCount
    if (isWhole) this.#beginAnew()
    for (let row = from; row < to; row++) this.#make(row)
  }

  /** R1 */
  #beginAnew(): void {
    this.#into = new ByteWriter(this.heldBytes)
    this.#groupPlaces = this.groups.map((group) => this.#writeGroup(group))
    this.#place.group = -1
  }

  #writeGroup({ resource, scope }: Group): GroupPlace {
    const into = this.#into
    const resourceStart = into.at
    into.copy(resource)
    const scopeStart = into.at
    into.copy(scope)
    return {
      ...(resource.byteLength > 0 ? { resourceStart, resourceEnd: scopeStart } : { resourceStart: 0, resourceEnd: 0 }),
      ...(scope.byteLength > 0 ? { scopeStart, scopeEnd: into.at } : { scopeStart: 0, scopeEnd: 0 }),
    }
  }

  #make(row: number): void {
    this.#seek(row)
    const into = this.#into
    const { shapes, rowShape } = this.#texts
    this.#starts[row] = into.at
    this.#writeRecord(shapes[rowShape[row]!]!, row)
    this.#ends[row] = into.at
  }

  #seek(row: number): void {
    if (row < this.#row) {
      this.#row = 0
      this.#next.fill(0)
    }
    if (row === this.#row) return
    const { shapes, rowShape } = this.#texts
    const passed = this.#passed.fill(0)
    for (let at = this.#row; at < row; at++) passed[rowShape[at]!]!++
    for (const [shape, { columns }] of shapes.entries()) {
      const rows = passed[shape]!
      if (rows > 0) for (const column of columns) this.#next[column]! += rows
    }
    this.#row = row
  }

  /** Also moves the columns to the next row. */
  #writeRecord({ steps, isIrregular }: Shape, row: number): void {
    const into = this.#into
    const next = this.#next
    const opened = this.#opened
    const timeHigh = this.#keys.timeHigh[row]!
    const timeLow = this.#keys.timeLow[row]!
    let depth = 0
    for (let i = 0; i < steps.length; i++) {
      const step = steps[i]!
      const { column } = step
      for (let k = 0; k < step.opened.length; k++) opened[depth++] = into.at + step.opened[k]!
      into.copy(step.bytes)
      if (column >= 0) {
        const start = into.at
        this.#columns[column]!.writeValue(into, next[column]!++, timeHigh, timeLow)
        if (!isIrregular && into.at - start === 16 && this.#traceColumns.has(column)) this.#setTrace(row, start)
      }
      for (let left = step.closed; left > 0; left--) closeAt(into, opened[--depth]!)
    }
    this.#row = row + 1
  }

  /** An explicit trace id counts before the one in the record. */
  #setTrace(row: number, at: number): void {
    if (this.#explicitTraces.has(row)) return
    for (let word = 0; word < 4; word++) this.#traces[4 * row + word] = this.#into.bytes.readUInt32BE(at + 4 * word)
  }

  /** The rows of a trace, ascending. No record is made: ids of traces have columns of their own. */
  rowsOfTrace(trace: Uint32Array): number[] {
    const wanted = bytesOf(trace)
    const { shapes, rowShape } = this.#texts
    const columnsOfShape = shapes.map(({ columns }) => columns.filter((column) => this.#traceColumns.has(column)))
    const next = new Map<number, number>()
    const rows: number[] = []
    for (let row = 0; row < this.recordCount; row++) {
      const shape = rowShape[row]!
      let isWanted = false
      for (const number of columnsOfShape[shape]!) {
        const value = next.get(number) ?? 0
        next.set(number, value + 1)
        const column = this.#columns[number]!
        assert(column instanceof BytesColumn)
        if (column.bytesOf(value) === wanted.byteLength) isWanted = column.isEqual(value, wanted)
      }
      const explicit = this.#explicitTraces.get(row)
      if (explicit !== undefined) isWanted = explicit.every((word, i) => word === trace[i])
      else if (shapes[shape]!.isIrregular) isWanted = false
      if (isWanted) rows.push(row)
    }
    return rows
  }

  /** Four words; zeros: none. */
  traceOf(row: number): Uint32Array {
    this.#makeRows(row, row + 1)
    return this.#traces.subarray(4 * row, 4 * row + 4)
  }

  /** Four words a row, as `traceOf` says. */
  traces(): Uint32Array {
    this.#makeRows(0, this.recordCount)
    return this.#traces
  }

  /** The record id of a row where it does not follow from its record; null: it does. */
  explicitIdOf(row: number): Uint32Array | null {
    return this.#explicitIds.get(row) ?? null
  }

  envelopeOf(row: number) {
    const { signal, format, source } = this.groups[this.rowGroup[row]!]!
    return { signal, format, source, tenant: this.#owner.tenant }
  }

  placeOf(row: number): RecordPlace {
    assert(this.#starts[row] !== NOT_MADE, 'gathered before')
    const place = this.#place
    const group = this.rowGroup[row]!
    place.recordStart = this.#starts[row]!
    place.recordEnd = this.#ends[row]!
    if (group !== place.group) Object.assign(place, this.#groupPlaces[group]!, { group })
    return place
  }

  record(row: number): StoredRecord {
    this.#makeRows(row, row + 1)
    const group = this.rowGroup[row]!
    const { resourceSchemaUrl, scopeSchemaUrl } = this.groups[group]!
    const { resourceStart, resourceEnd, scopeStart, scopeEnd } = this.#groupPlaces[group]!
    const { body } = this
    return {
      resource: body.subarray(resourceStart, resourceEnd),
      scope: body.subarray(scopeStart, scopeEnd),
      record: body.subarray(this.#starts[row], this.#ends[row]),
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

function bytesOf(trace: Uint32Array): Buffer {
  const bytes = Buffer.alloc(4 * trace.length)
  for (const [i, word] of trace.entries()) bytes.writeUInt32BE(word, 4 * i)
  return bytes
}

/** Writes the length of the bytes from `start` on in front of them. One byte was kept for it; a longer number moves the bytes. */
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
