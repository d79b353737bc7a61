/**
 * The shapes of a bundle, and the columns that follow from them. A column holds the values at one path of fields and attribute names. It gets its number
 * with the first shape that has it, so the shapes in their order give writer and reader the same columns in the same order.
 *
 * C1  a record without a shape is the one value of a column of whole records
 */
import assert from 'node:assert/strict'
import { ByteReader } from './byte-reader.ts'
import { ByteTable } from './byte-table.ts'
import type { ByteWriter } from './byte-writer.ts'
import {
  BOOLEAN,
  BYTES,
  DOUBLE,
  FIELD_KINDS,
  FIXED32,
  FIXED64,
  INTEGER,
  KEY,
  LOG_RECORD,
  MESSAGE,
  SEVERITY,
  SPAN,
  TEXT,
  TIME,
  VARINT,
  kindOfWireType,
} from './otlp-fields.ts'
import { ROOT_JSON, ROOT_LOG, ROOT_OPAQUE } from './record-shape.ts'
import type { Step } from './record-shape.ts'

export interface Column {
  readonly kind: number
  /** Whether searches for words look at its values. */
  readonly isSearched: boolean
  /** The attribute of the record whose texts or numbers it holds; null: it holds something else. */
  readonly attribute: string | null
  /** Root, tags and names on the way to the values. Conditions on fields find their columns by it. */
  readonly path: string
}

export interface Shape {
  readonly root: number
  readonly bytes: Buffer
  readonly steps: readonly Step[]
  /** The columns of its values, in their order, and their kinds. */
  readonly columns: Uint16Array
  readonly kinds: Uint8Array
  /** Names of the attributes of the record, in their order. */
  readonly attributes: readonly string[]
  /** A field that should come once comes again, or an attribute has no name. Only the views of records know what counts then. */
  readonly isIrregular: boolean
}

/** How many values each record of the shape has in the column: more than one in a list, or where a field comes again that should not. */
export const valuesIn = ({ columns }: Shape, column: number): number =>
  columns.reduce((sum, each) => sum + Number(each === column), 0)

/** More than a service has. Records with a further shape are kept whole. */
const SHAPES_MAX = 4096
const COLUMNS_MAX = 16_384

export class Shapes {
  readonly all: Shape[] = []
  readonly columns: Column[] = []
  readonly #byBytes = new ByteTable()
  readonly #byPath = new Map<string, number>()

  /** The number of a shape as RecordCutter wrote it; -1: there are too many. */
  numberOf(bytes: Buffer, byteLength = bytes.byteLength): number {
    const known = this.#byBytes.find(bytes, 0, byteLength)
    if (known >= 0) return known
    const isFull = this.all.length >= SHAPES_MAX || this.columns.length >= COLUMNS_MAX
    if (isFull && bytes[0] !== ROOT_OPAQUE && bytes[0] !== ROOT_JSON) return -1
    this.all.push(new Compiler(this, Buffer.from(bytes.subarray(0, byteLength))).compile())
    return this.#byBytes.numberOf(bytes, 0, byteLength)
  }

  columnOf(path: string, column: Omit<Column, 'path'>): number {
    const known = this.#byPath.get(path)
    if (known !== undefined) return known
    this.columns.push({ ...column, path })
    this.#byPath.set(path, this.columns.length - 1)
    return this.columns.length - 1
  }

  write(into: ByteWriter): void {
    into.varint(this.all.length)
    for (const { bytes } of this.all) into.lengthAndBytes(bytes)
  }

  static read(from: ByteReader): Shapes {
    const shapes = new Shapes()
    for (let left = from.varint(); left > 0; left--) assert(shapes.numberOf(from.lengthAndBytes()) >= 0)
    return shapes
  }
}

/** Where a walk through a shape is. */
interface Place {
  readonly path: string
  readonly isSearched: boolean
  /** The name of the record's attribute that the walk is in: null outside of attributes, '' while the name is not known. */
  readonly attribute: string | null
}

class Compiler {
  readonly #shapes: Shapes
  readonly #bytes: Buffer
  readonly #from: ByteReader
  readonly #steps: Step[] = []
  readonly #columns: number[] = []
  readonly #attributes: string[] = []
  #isIrregular = false
  /** The fixed bytes before the next value. */
  #static: Buffer[] = []
  #opened: number[] = []

  constructor(shapes: Shapes, bytes: Buffer) {
    this.#shapes = shapes
    this.#bytes = bytes
    this.#from = new ByteReader(bytes)
  }

  compile(): Shape {
    const root = this.#from.byte()
    if (root === ROOT_OPAQUE || root === ROOT_JSON) {
      const kind = root === ROOT_JSON ? TEXT : BYTES
      this.#value(kind, { path: `whole ${root}`, isSearched: false, attribute: null }) // C1
    } else {
      const message = root === ROOT_LOG ? LOG_RECORD : SPAN
      this.#message(message, { path: `${root}`, isSearched: false, attribute: null }, true)
    }
    if (this.#static.length > 0) this.#step(-1)
    const columns = Uint16Array.from(this.#columns)
    const attributes = this.#attributes
    const kinds = Uint8Array.from(columns, (column) => this.#shapes.columns[column]!.kind)
    return { root, bytes: this.#bytes, steps: this.#steps, columns, kinds, attributes, isIrregular: this.#isIrregular }
  }

  #message(message: number, place: Place, isRecord: boolean): void {
    const kinds = FIELD_KINDS[message]!
    const seen = new Set<number>()
    let { attribute } = place
    let key = ''
    for (;;) {
      const start = this.#from.at
      const tag = this.#from.varint()
      if (tag === 0) return
      this.#static.push(this.#bytes.subarray(start, this.#from.at))
      const kind = (tag < 256 ? kinds[tag]! : 0) || kindOfWireType(tag & 7)
      const isSecond = seen.has(tag) || (message === ANY_VALUE_MESSAGE && seen.size > 0)
      const isNameless = message === KEY_VALUE_MESSAGE && kind !== KEY && !seen.has(NAME_TAG)
      if ((isSecond && !isRepeated(message, tag)) || isNameless) this.#isIrregular = true
      seen.add(tag)
      if (kind === KEY) {
        const keyStart = this.#from.at
        const name = this.#from.lengthAndBytes()
        this.#static.push(this.#bytes.subarray(keyStart, this.#from.at))
        key = `${name.byteLength}=${name.toString('latin1')}`
        if (attribute === '') {
          if (name.byteLength === 0) this.#isIrregular = true // an empty name cannot be told from a missing one
          attribute = name.toString()
          this.#attributes.push(attribute)
        }
        continue
      }
      const inner: Place = {
        path: `${place.path}/${tag}${key}`,
        isSearched: isRecord ? isSearchedField(message, tag) : place.isSearched && isSearchedPart(message, tag),
        attribute: isRecord && isAttributes(message, tag) ? '' : attribute,
      }
      if (kind < MESSAGE) this.#value(kind, { ...inner, attribute: isScalar(message, kind) ? attribute : null })
      else {
        this.#open()
        // Values inside a list or a map do not belong to a column of the attribute itself.
        const isDeeper = message === ANY_VALUE_MESSAGE
        this.#message(kind - MESSAGE, isDeeper ? { ...inner, attribute: null } : inner, false)
        this.#close()
      }
    }
  }

  #value(kind: number, { path, isSearched, attribute }: Place): void {
    const hasLength = (kind === TEXT || kind === BYTES) && !path.startsWith('whole')
    const column = this.#shapes.columnOf(path, { kind, isSearched: isSearched && kind === TEXT, attribute })
    this.#columns.push(column)
    if (hasLength) this.#open()
    this.#step(column)
    if (hasLength) this.#close()
  }

  #open(): void {
    this.#static.push(LENGTH_TO_COME)
    this.#opened.push(this.#static.reduce((sum, { byteLength }) => sum + byteLength, 0))
  }

  #close(): void {
    if (this.#static.length > 0) this.#step(-1)
    this.#steps.at(-1)!.closed++
  }

  #step(column: number): void {
    this.#steps.push({ bytes: Buffer.concat(this.#static), opened: this.#opened, column, closed: 0 })
    this.#static = []
    this.#opened = []
  }
}

const LENGTH_TO_COME = Buffer.alloc(1)
const ANY_VALUE_MESSAGE = 2
const ARRAY_VALUE_MESSAGE = 3
const KEY_VALUE_LIST_MESSAGE = 4
const KEY_VALUE_MESSAGE = 5
const EVENT_MESSAGE = 6
const STATUS_MESSAGE = 8

const tagOf = (field: number, wireType: number): number => (field << 3) | wireType
const LENGTH = 2
const NAME_TAG = tagOf(1, LENGTH)

const isAttributes = (message: number, tag: number): boolean => tag === tagOf(message === LOG_RECORD ? 6 : 9, LENGTH)

/** A text, number or boolean of an AnyValue. */
const isScalar = (message: number, kind: number): boolean =>
  message === ANY_VALUE_MESSAGE && (kind === TEXT || kind === BOOLEAN || kind === INTEGER || kind === DOUBLE)

/** Whether a field of a record holds texts that count, as RecordView.hasText says. */
function isSearchedField(message: number, tag: number): boolean {
  if (tag % 8 !== LENGTH) return false
  const field = tag >>> 3
  return message === LOG_RECORD ? field === 5 || field === 6 || field === 12 : [5, 9, 11, 15].includes(field)
}

/** Likewise for the fields inside of such a field: texts count, except names. */
function isSearchedPart(message: number, tag: number): boolean {
  const field = tag >>> 3
  switch (message) {
    case ANY_VALUE_MESSAGE:
      return field === 1 || field === 5 || field === 6
    case EVENT_MESSAGE:
      return field === 2 || field === 3
    default:
      return message === STATUS_MESSAGE ? field === 2 : field === 1 || field === 2
  }
}

function isRepeated(message: number, tag: number): boolean {
  const field = tag >>> 3
  switch (message) {
    case LOG_RECORD:
      return field === 6
    case SPAN:
      return field === 9 || field === 11 || field === 13
    case ARRAY_VALUE_MESSAGE:
    case KEY_VALUE_LIST_MESSAGE:
      return field === 1
    case EVENT_MESSAGE:
      return field === 3
    case KEY_VALUE_MESSAGE:
      return false
    default:
      return false
  }
}

const NUMBERS: ReadonlySet<number> = new Set([VARINT, SEVERITY, TIME, FIXED64, FIXED32, BOOLEAN, INTEGER, DOUBLE])

/** Whether the values of a column are numbers of 64 bits. */
export const isNumber = (kind: number): boolean => NUMBERS.has(kind)
