/**
 * Writes blocks: some thousand records of one partition in the order of time, as columns. Layout of the parts, each compressed by itself:
 *
 *   keys     steps of the times, see writePairs; entries, see writeNumbers
 *   texts    groups varint; each: signal, format, source u8; resource, scope, their schema URLs: length varint, bytes. Number of the group of each
 *            row, see writeChoices. Shapes varint, the number of each in the bundle; number of the shape of each row. Then by column: heads of texts,
 *            severities
 *   numbers  by column: numbers other than severities
 *   values   by column: values of texts, bytes. Then record ids and trace ids that do not follow from the records: count varint, rows,
 *            16 bytes each
 *
 * `texts` and `numbers` tell most searches which rows match, so that they need not read the values.
 *
 * B1  columns are in the order of their numbers in the bundle, and the values of a column are in the order of the rows
 */
import assert from 'node:assert/strict'
import { ByteWriter } from './byte-writer.ts'
import { WordPairs, writeChoices, writeNumbers, writePairs } from './number-columns.ts'
import { BYTES, SEVERITY, TEXT } from './otlp-fields.ts'
import { ROOT_JSON, ROOT_LOG, ROOT_OPAQUE, ROOT_SPAN, RecordCutter } from './record-shape.ts'
import type { Shape, Shapes } from './shapes.ts'
import { TextColumnWriter } from './text-column-writer.ts'
import { BytesColumnWriter, NumberColumnWriter } from './value-columns.ts'

export const BLOCK_ROWS_MAX = 4096
/** A block ends once its records have this many bytes. The last record may go far beyond. */
export const BLOCK_BYTES_MAX = 2 * 1024 * 1024

/** What records share: where they came from, and what they belong to. */
export interface Group {
  readonly signal: number
  readonly format: number
  readonly source: number
  readonly resource: Uint8Array
  readonly scope: Uint8Array
  readonly resourceSchemaUrl: Uint8Array
  readonly scopeSchemaUrl: Uint8Array
  /** ROOT_… of the shapes of its records. */
  readonly root: number
}

/** The paths under which a trace id stands: field 9 of LogRecord, field 1 of Span. */
export const TRACE_PATHS: readonly string[] = [`${ROOT_LOG}/74`, `${ROOT_SPAN}/10`]

export interface BlockParts {
  readonly keys: Buffer<ArrayBuffer>
  readonly texts: Buffer<ArrayBuffer>
  readonly numbers: Buffer<ArrayBuffer>
  readonly values: Buffer<ArrayBuffer>
  /** See `severityBit`. */
  readonly severities: number
  /** By severity: how many rows have it. Null: the severity of some row is not known. */
  readonly severityRows: Uint32Array | null
}

/** Called with each text of a record, after the text was added to its column. */
export interface TextVisitor {
  countText(number: number, column: TextColumnWriter, start: number, end: number): void
}

/** What is known of a shape before its records come. */
interface ShapePlan {
  readonly shape: Shape
  readonly columns: Uint16Array
  /** By value: 1 for its severity. */
  readonly isSeverity: Uint8Array
  /** See `traceColumnOf`. */
  readonly trace: number
}

export class BlockWriter {
  #source: Buffer = Buffer.alloc(0)
  readonly #shapes: Shapes
  /** Has the values of the record that was added last. */
  readonly cutter = new RecordCutter()
  readonly #keys = new ByteWriter()
  readonly #texts = new ByteWriter()
  readonly #numbers = new ByteWriter()
  readonly #values = new ByteWriter()
  readonly #opaque: Buffer = Buffer.of(ROOT_OPAQUE)
  #rows = 0
  #shape: Shape | null = null
  #lastShape = 0
  /** By shape: the shape that followed it last. */
  readonly #nextShape: number[] = []
  #severities = 0
  readonly #severityRows = new Uint32Array(SEVERITY_BITS)
  readonly #visitor: TextVisitor | null
  readonly #plans: ShapePlan[] = []
  /** By number of a column: writers for the columns of the last block and of this one. */
  readonly #textColumns: (TextColumnWriter | undefined)[] = []
  readonly #numberColumns: (NumberColumnWriter | undefined)[] = []
  readonly #bytesColumns: (BytesColumnWriter | undefined)[] = []
  #groups = new Map<Group, number>()
  /** The group of the record that was added last, and the number of this group in the block. */
  #group: Group | null = null
  #groupNumber = 0
  #usedShapes = new Map<number, number>()
  readonly #rowGroups = new Uint16Array(BLOCK_ROWS_MAX)
  readonly #rowShapes = new Uint16Array(BLOCK_ROWS_MAX)
  readonly #entries = new Float64Array(BLOCK_ROWS_MAX)
  readonly #times = new WordPairs(BLOCK_ROWS_MAX)
  #timeHigh = 0
  #timeLow = 0
  #ids: [row: number, words: Uint32Array][] = []
  #traces: [row: number, words: Uint32Array][] = []

  constructor(shapes: Shapes, visitor: TextVisitor | null = null) {
    this.#shapes = shapes
    this.#visitor = visitor
  }

  /** Call it before the first record of a block. @param source has the bytes of its records until `finish` */
  begin(source: Buffer): void {
    assert(this.#rows === 0)
    this.#source = source
    for (const column of this.#textColumns) column?.begin(source)
    for (const column of this.#numberColumns) column?.begin()
    for (const column of this.#bytesColumns) column?.begin(source)
  }

  get rows(): number {
    return this.#rows
  }

  /** The shape of the record that was added last. */
  get shape(): Shape {
    assert(this.#shape !== null)
    return this.#shape
  }

  /**
   * @param trace four words at `traceAt`, zeros: none
   * @param id    the record id where it does not follow from record and group
   */
  add(
    start: number,
    end: number,
    group: Group,
    timeHigh: number,
    timeLow: number,
    entry: number,
    trace: Uint32Array,
    traceAt: number,
    id: Uint32Array | null,
  ): void {
    const row = this.#rows++
    if (row === 0) this.#times.add(0, 0)
    else this.#addStep(timeHigh, timeLow)
    this.#timeHigh = timeHigh
    this.#timeLow = timeLow
    this.#entries[row] = entry
    if (group !== this.#group) {
      this.#group = group
      this.#groupNumber = numberIn(this.#groups, group)
    }
    this.#rowGroups[row] = this.#groupNumber
    const shape = this.#cut(start, end, group.root)
    this.#rowShapes[row] = numberIn(this.#usedShapes, shape)
    const plan = (this.#plans[shape] ??= this.#planOf(shape))
    this.#addValues(plan)
    if (id !== null) this.#ids.push([row, id])
    if (!this.#followsTrace(plan, trace, traceAt)) this.#traces.push([row, trace.slice(traceAt, traceAt + 4)])
  }

  /** The number of the record's shape. Tries first the shape that last followed the shape of the record before. */
  #cut(start: number, end: number, root: number): number {
    const cutter = this.cutter
    const expected = this.#nextShape[this.#lastShape] ?? -1
    const known = expected < 0 ? null : this.#shapes.all[expected]!
    let shape = expected
    if (
      known?.root !== root ||
      root === ROOT_JSON ||
      !cutter.cutAs(known.steps, known.kinds, this.#source, start, end)
    ) {
      cutter.cut(this.#source, start, end, root)
      shape = this.#shapes.numberOf(cutter.shape, cutter.shapeBytes)
      if (shape < 0) {
        shape = this.#shapes.numberOf(this.#opaque)
        cutter.cutWhole(start, end, root)
      }
    }
    if (shape !== expected) this.#nextShape[this.#lastShape] = shape
    this.#lastShape = shape
    return shape
  }

  #addStep(timeHigh: number, timeLow: number): void {
    const borrow = timeLow < this.#timeLow ? 1 : 0
    this.#times.add(timeHigh - this.#timeHigh - borrow, (timeLow - this.#timeLow) >>> 0)
  }

  #planOf(number: number): ShapePlan {
    while (this.#plans.length < number) this.#plans.push(this.#planOf(this.#plans.length))
    while (this.#textColumns.length < this.#shapes.columns.length) {
      this.#textColumns.push(undefined)
      this.#numberColumns.push(undefined)
      this.#bytesColumns.push(undefined)
    }
    const shape = this.#shapes.all[number]!
    const { columns, isIrregular } = shape
    const isSeverity = Uint8Array.from(columns, (column) =>
      !isIrregular && this.#shapes.columns[column]!.kind === SEVERITY ? 1 : 0,
    )
    return { shape, columns, isSeverity, trace: traceColumnOf(this.#shapes, number) }
  }

  #addValues({ shape, columns, isSeverity }: ShapePlan): void {
    this.#shape = shape
    const { first, second } = this.cutter
    const { kinds } = shape
    let severity = shape.root === ROOT_SPAN && !shape.isIrregular ? NO_SEVERITY : ANY_SEVERITY
    for (let i = 0; i < columns.length; i++) {
      const number = columns[i]!
      const kind = kinds[i]!
      if (kind === TEXT) {
        const column = (this.#textColumns[number] ??= new TextColumnWriter(this.#source))
        column.add(first[i]!, second[i]!)
        this.#visitor?.countText(number, column, first[i]!, second[i]!)
      } else if (kind === BYTES) {
        const column = (this.#bytesColumns[number] ??= new BytesColumnWriter(this.#source))
        column.add(first[i]!, second[i]!)
      } else {
        const column = (this.#numberColumns[number] ??= new NumberColumnWriter(kind))
        column.add(second[i]!, first[i]!, this.#timeHigh, this.#timeLow)
        if (isSeverity[i] === 1 && second[i] === 0) severity = severityBit(first[i]!)
      }
    }
    this.#severities = (this.#severities | severity) >>> 0 // the highest bit is not a sign
    if (severity !== NO_SEVERITY) this.#severityRows[31 - Math.clz32(severity)]!++
  }

  /** Whether a reader gets the trace id from the values of the record. */
  #followsTrace({ trace: value }: ShapePlan, trace: Uint32Array, at: number): boolean {
    const start = value < 0 ? 0 : this.cutter.first[value]!
    if (value < 0 || this.cutter.second[value]! - start !== 16) {
      return (trace[at]! | trace[at + 1]! | trace[at + 2]! | trace[at + 3]!) === 0
    }
    for (let word = 0; word < 4; word++) {
      if (this.#source.readUInt32BE(start + 4 * word) !== trace[at + word]) return false
    }
    return true
  }

  /** The parts of the rows that were added; valid until the next call. The next row begins a new block. */
  finish(): BlockParts {
    const rows = this.#rows
    const keys = this.#keys
    keys.reset()
    writePairs(keys, this.#times)
    writeNumbers(keys, this.#entries, rows)

    const texts = this.#texts
    texts.reset()
    texts.varint(this.#groups.size)
    for (const group of this.#groups.keys()) writeGroup(texts, group)
    writeChoices(texts, this.#rowGroups, rows, this.#groups.size)
    texts.varint(this.#usedShapes.size)
    for (const shape of this.#usedShapes.keys()) texts.varint(shape)
    writeChoices(texts, this.#rowShapes, rows, this.#usedShapes.size)

    const numbers = this.#numbers
    numbers.reset()
    const values = this.#values
    values.reset()
    for (let number = 0; number < this.#textColumns.length; number++) this.#writeColumn(number) // B1
    writeWords(values, this.#ids)
    writeWords(values, this.#traces)
    const severities = this.#severities
    const severityRows = (severities & ANY_SEVERITY) === 0 ? this.#severityRows.slice() : null
    this.#begin()
    return {
      keys: keys.written(),
      texts: texts.written(),
      numbers: numbers.written(),
      values: values.written(),
      severities,
      severityRows,
    }
  }

  /** Drops the writer of a column without values in this block; otherwise the memory of all columns would be kept. */
  #writeColumn(number: number): void {
    const text = this.#textColumns[number]
    if (text !== undefined && text.count > 0) {
      text.writeHead(this.#texts)
      text.writeValues(this.#values)
    } else this.#textColumns[number] = undefined
    const bytes = this.#bytesColumns[number]
    if (bytes !== undefined && bytes.count > 0) bytes.write(this.#values)
    else this.#bytesColumns[number] = undefined
    const numbers = this.#numberColumns[number]
    const isSeverity = this.#shapes.columns[number]!.kind === SEVERITY
    if (numbers !== undefined && numbers.count > 0) numbers.write(isSeverity ? this.#texts : this.#numbers)
    else this.#numberColumns[number] = undefined
  }

  #begin(): void {
    this.#rows = 0
    this.#severities = 0
    this.#severityRows.fill(0)
    this.#times.count = 0
    this.#groups = new Map()
    this.#group = null
    this.#usedShapes = new Map()
    this.#ids = []
    this.#traces = []
  }
}

export const SEVERITY_BITS = 32
const NO_SEVERITY = 0
/** The bit of records whose severity is not known from a number. */
const ANY_SEVERITY = 1

/** The severities of a block are the union of the bits of its rows. */
const severityBit = (severity: number): number =>
  severity > 0 && severity < SEVERITY_BITS ? (1 << severity) >>> 0 : ANY_SEVERITY

/** Whether a block with these severities may have a record with one in this range, bounds included. */
export function maySeverityBe(severities: number, min: number, max: number): boolean {
  if ((severities & ANY_SEVERITY) !== 0) return true
  for (let severity = Math.max(1, Math.ceil(min)); severity <= Math.min(max, SEVERITY_BITS - 1); severity++) {
    if ((severities & severityBit(severity)) !== 0) return true
  }
  return false
}

/** Which value of the records of a shape is their trace id; -1: none, or the shape is irregular. */
function traceColumnOf(shapes: Shapes, shape: number): number {
  const { columns, isIrregular } = shapes.all[shape]!
  if (isIrregular) return -1
  return columns.findIndex((column) => TRACE_PATHS.includes(shapes.columns[column]!.path))
}

export const rootOf = (isJson: boolean, isLog: boolean): number => (isJson ? ROOT_JSON : isLog ? ROOT_LOG : ROOT_SPAN)

function numberIn<Key>(numbers: Map<Key, number>, key: Key): number {
  let number = numbers.get(key)
  if (number === undefined) numbers.set(key, (number = numbers.size))
  return number
}

function writeGroup(into: ByteWriter, group: Group): void {
  into.byte(group.signal)
  into.byte(group.format)
  into.byte(group.source)
  for (const part of [group.resource, group.scope, group.resourceSchemaUrl, group.scopeSchemaUrl])
    into.lengthAndBytes(part)
}

function writeWords(into: ByteWriter, all: readonly (readonly [row: number, words: Uint32Array])[]): void {
  into.varint(all.length)
  writeNumbers(
    into,
    Float64Array.from(all, ([row]) => row),
    all.length,
  )
  for (const [, words] of all) for (const word of words) into.u32(word)
}
