/**
 * Reads from the columns of a block, for each row, the value that a name stands for, as a text: histograms are split by these. A block keeps each distinct
 * text once, and rows refer to it by its number.
 *
 * V1  the text of a row is what `readerOf` (search/value-text.ts) reads in its record, or the row has UNKNOWN_VALUE, and the record has to be read
 */
import { SIGNAL_LOG } from '../batch-frame.ts'
import { fieldOf, resolveName } from '../search/names.ts'
import type { AttributePlace, FieldName } from '../search/names.ts'
import { LOG_FIELDS, SCOPE_FIELDS, SPAN_FIELDS, STATUS_FIELDS } from '../search/record-view.ts'
import type { RecordView } from '../search/record-view.ts'
import { attributeText, fieldText, nameOfSeverity, textOfField, textOfValue } from '../search/value-text.ts'
import type { Value } from '../search/values.ts'
import { STATUS_PATH, numberOf, pathsOf } from './block-numbers.ts'
import type { BlockTexts } from './block-reader.ts'
import { ByteWriter } from './byte-writer.ts'
import { viewOfGroup } from './group-view.ts'
import { FIXED32, SEVERITY, TEXT, VARINT } from './otlp-fields.ts'
import { ROOT_LOG, ROOT_SPAN } from './record-shape.ts'
import { NO_SEVERITY, UNKNOWN_SEVERITY, severitiesOfRows } from './row-severities.ts'
import { valuesIn } from './shapes.ts'
import type { Shape, Shapes } from './shapes.ts'
import { MATCHES, isKnown } from './verdict.ts'
import type { Verdict } from './verdict.ts'

export const UNKNOWN_VALUE = 0xffff

export interface RowValues {
  /** Null: the text of rows without a value. */
  readonly texts: readonly (string | null)[]
  /** By row: the number of its text, or UNKNOWN_VALUE. Null: all rows have the first text. */
  readonly choices: Uint16Array | null
}

/** @param wanted rows that do not match may get a wrong text */
export type RowValuesReader = (texts: BlockTexts, bundle: Shapes, wanted: Verdict) => RowValues

/** Null: no column holds the values of the name. */
export function rowValuesOf(name: string): RowValuesReader | null {
  if (name === 'severity') return valuesOfSeverity
  if (name === 'signal') return ({ groups, rowGroup }) => valuesOfSignal(groups, rowGroup)
  const named = resolveName(fieldOf(name))
  switch (named.kind) {
    case 'attribute':
      return readerOfAttribute(named.of, named.key)
    case 'field':
      return readerOfField(named.field)
    case 'body':
      return null
  }
}

/** The texts of a block, each once. */
class TextNumbers {
  readonly texts: (string | null)[] = []
  readonly #numbers = new Map<string | null, number>()

  of(text: string | null): number {
    const known = this.#numbers.get(text)
    if (known !== undefined) return known
    this.#numbers.set(text, this.texts.length)
    return this.texts.push(text) - 1
  }
}

const valuesOfSeverity: RowValuesReader = (texts, bundle) => {
  const numbers = new TextNumbers()
  const choices = Uint16Array.from(severitiesOfRows(texts, bundle), (severity) => {
    if (severity === UNKNOWN_SEVERITY) return UNKNOWN_VALUE
    return numbers.of(severity === NO_SEVERITY ? null : nameOfSeverity(severity))
  })
  return { texts: numbers.texts, choices }
}

function valuesOfSignal(groups: BlockTexts['groups'], rowGroup: Uint16Array): RowValues {
  const numbers = new TextNumbers()
  const ofGroups = groups.map(({ signal }) => numbers.of(signal === SIGNAL_LOG ? 'log' : 'trace'))
  return { texts: numbers.texts, choices: byGroup(ofGroups, rowGroup) }
}

/** Null: all rows have the first text. */
function byGroup(ofGroups: readonly number[], rowGroup: Uint16Array): Uint16Array | null {
  if (ofGroups.every((number) => number === 0)) return null
  return rowGroup.map((group) => ofGroups[group]!)
}

/** Where the records of a shape have the value. */
type ValuePlace =
  /** The first value that a record has there. */
  | { readonly of: 'column'; readonly column: number }
  /** The value is the same in all records. */
  | { readonly of: 'shape'; readonly text: string | null }
  /** The value is in their resource or scope. */
  | { readonly of: 'group' }
  /** The record has to be read. */
  | { readonly of: 'record' }

const IN_GROUP: ValuePlace = { of: 'group' }
const IN_RECORD: ValuePlace = { of: 'record' }

type PlaceInShape = (shape: Shape, bundle: Shapes) => ValuePlace

/**
 * @param ofGroup reads the text from resource and scope; null: they do not have it
 * @param ofValue makes the text of a value in a column
 */
function readerOfPlaces(
  placeIn: PlaceInShape,
  ofGroup: ((view: RecordView) => string | null) | null,
  ofValue: (value: Value) => string | null,
): RowValuesReader {
  const known = new Map<Shape, ValuePlace>()
  const placeOf = (shape: Shape, bundle: Shapes): ValuePlace => {
    let place = known.get(shape)
    if (place === undefined) known.set(shape, (place = placeIn(shape, bundle)))
    return place
  }
  return (texts, bundle, wanted) => {
    const numbers = new TextNumbers()
    const { shapes, rowShape, rowGroup, groups } = texts
    const places = shapes.map((shape) => placeOf(shape, bundle))
    const ofGroups = groups.map((group) => {
      const view = ofGroup === null ? null : viewOfGroup(group)
      return view === null ? UNKNOWN_VALUE : numbers.of(ofGroup!(view))
    })
    if (places.every((place) => place === IN_GROUP)) {
      return { texts: numbers.texts, choices: byGroup(ofGroups, rowGroup) }
    }
    const columns = [...new Set(places.flatMap((place) => (place.of === 'column' ? [place.column] : [])))]
    const readers = columns.map((column) => numbersOfColumn(texts, bundle, column, numbers, ofValue))
    // Every value of a column is passed, also in rows that take their value from elsewhere.
    const passed = shapes.map((shape) => columns.map((column) => valuesIn(shape, column)))
    const chosen = places.map((place) => (place.of === 'column' ? columns.indexOf(place.column) : -1))
    const ofShapes = places.map((place) => (place.of === 'shape' ? numbers.of(place.text) : UNKNOWN_VALUE))
    const next = new Uint32Array(columns.length)
    const choices = new Uint16Array(rowShape.length)
    for (let row = 0; row < choices.length; row++) {
      const shape = rowShape[row]!
      const column = chosen[shape]!
      if (column < 0) choices[row] = places[shape] === IN_GROUP ? ofGroups[rowGroup[row]!]! : ofShapes[shape]!
      else if (typeof wanted === 'number' || wanted[row] === MATCHES) choices[row] = readers[column]!(next[column]!)
      const its = passed[shape]!
      for (let i = 0; i < its.length; i++) next[i]! += its[i]!
    }
    return { texts: numbers.texts, choices }
  }
}

/** Scratch: the value that is read. */
const value = new ByteWriter()

/** By value of a column: the number of its text. */
function numbersOfColumn(
  texts: BlockTexts,
  bundle: Shapes,
  number: number,
  numbers: TextNumbers,
  ofValue: (value: Value) => string | null,
): (at: number) => number {
  const { kind } = bundle.columns[number]!
  if (kind !== TEXT) {
    const { low, high } = (kind === SEVERITY ? texts.severities.get(number)! : texts.numbers(number)).pairs
    return (at) => numbers.of(ofValue(numberIn(kind, high[at]!, low[at]!)))
  }
  const column = texts.texts.get(number)!
  const { choices } = column
  const ofForms = new Int32Array(column.formCount).fill(-1)
  return (at) => {
    const form = choices[at]!
    if (ofForms[form]! >= 0) return ofForms[form]!
    const { bytes, kinds } = column.form(form)
    if (kinds.length === 0) return (ofForms[form] = numbers.of(ofValue(bytes.toString())))
    texts.values()
    value.reset()
    column.writeValue(value, at)
    return numbers.of(ofValue(value.bytes.toString('utf8', 0, value.at)))
  }
}

/** A number as views give it: one of a field has 32 bits, whatever was sent. */
function numberIn(kind: number, high: number, low: number): Value {
  if (kind === FIXED32) return low
  return kind === VARINT || kind === SEVERITY ? low | 0 : numberOf(kind, high, low)
}

function readerOfAttribute(places: readonly AttributePlace[], key: string): RowValuesReader {
  const shared = places.filter((place) => place !== 'record')
  const inRecord = places.includes('record')
  const without: ValuePlace = shared.length > 0 ? IN_GROUP : { of: 'shape', text: null }
  const name = key.toWellFormed() // half surrogate pairs are replaced, as in UTF-8
  const placeIn: PlaceInShape = (shape, bundle) => {
    if (!inRecord) return IN_GROUP
    if (!isKnown(shape)) return IN_RECORD
    const mayBe = shape.attributes.filter((each) => each === name || name.startsWith(`${each}.`))
    if (mayBe.length === 0) return without
    // Lists and maps have no column of the attribute itself.
    const columns = shape.columns.filter((column) => bundle.columns[column]!.attribute === name)
    return mayBe.length === columns.length ? { of: 'column', column: columns[0]! } : IN_RECORD
  }
  return readerOfPlaces(placeIn, shared.length > 0 ? (view) => attributeText(view, shared, key) : null, textOfValue)
}

/** Reads fields that are texts or small numbers; null: the field is neither. */
function readerOfField(field: FieldName): RowValuesReader | null {
  if (SCOPE_FIELDS[field] !== undefined)
    return readerOfPlaces(
      () => IN_GROUP,
      (view) => fieldText(view, field),
      textOfValue,
    )
  const ofNumber = pathsOf(field)
  const ofText = textPathsOf(field)
  if (ofNumber === null && ofText.length === 0) return null
  const placeIn: PlaceInShape = (shape, bundle) => {
    if (!isKnown(shape)) return IN_RECORD
    const placeAt = (path: string | undefined): ValuePlace | null => {
      const column = shape.columns.find((each) => bundle.columns[each]!.path === path)
      return column === undefined ? null : { of: 'column', column }
    }
    const numbers = ofNumber?.find(({ root }) => root === shape.root)
    if (numbers !== undefined)
      return placeAt(numbers.varint) ?? placeAt(numbers.fixed) ?? { of: 'shape', text: textOfField(field, 0) }
    return placeAt(ofText.find(({ root }) => root === shape.root)?.path) ?? { of: 'shape', text: null }
  }
  return readerOfPlaces(placeIn, null, (value) => textOfField(field, value))
}

function textPathsOf(field: FieldName): readonly { readonly root: number; readonly path: string }[] {
  const paths: { root: number; path: string }[] = []
  const [ofLog, ofSpan, ofStatus] = [LOG_FIELDS[field], SPAN_FIELDS[field], STATUS_FIELDS[field]]
  if (ofLog?.[2] === 'text') paths.push({ root: ROOT_LOG, path: `${ROOT_LOG}/${8 * ofLog[0] + 2}` })
  if (ofSpan?.[2] === 'text') paths.push({ root: ROOT_SPAN, path: `${ROOT_SPAN}/${8 * ofSpan[0] + 2}` })
  if (ofStatus?.[2] === 'text') paths.push({ root: ROOT_SPAN, path: `${STATUS_PATH}/${8 * ofStatus[0] + 2}` })
  return paths
}
