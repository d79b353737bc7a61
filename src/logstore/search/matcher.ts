/**
 * A search made ready to run: conditions on the view of a record, and texts of which each matching record has one in its bytes, so that most other records
 * are skipped.
 */
import { FORMAT_JSON } from '../batch-frame.ts'
import type { RecordBatch } from '../batch-frame.ts'
import { ByteFinder } from './byte-finder.ts'
import { severityOf } from './expression.ts'
import type { NameCondition, Search } from './expression.ts'
import { JsonView } from './json-view.ts'
import { resolveName } from './names.ts'
import type { AttributePlace, FieldName } from './names.ts'
import { ProtobufView } from './protobuf-view.ts'
import type { RecordView } from './record-view.ts'
import { TextTest, needleOf } from './text-test.ts'
import { valueTest } from './values.ts'
import type { ValueTest } from './values.ts'
import { isAscii } from './words.ts'

/** @param from place in the bytes of the batch: the required text does not begin in the record before it */
type Condition = (view: RecordView, from: number) => boolean

/** Bytes that conditions read between two calls of `check`: the slowest conditions take a third of a second for the longest record. */
const BYTES_PER_CHECK = 1024 * 1024

const NOWHERE = -1
const NOT_ASKED = -2

export class SearchMatcher {
  /** A batch with a match has at least one of these texts in its bytes, unless it has escapes. Null: no such texts are known. */
  readonly required: readonly string[] | null
  readonly #condition: Condition
  readonly #required: readonly RequiredText[] | null
  readonly #finders: readonly ByteFinder[]
  /** By finder: where it found its text last in the batch, NOWHERE or NOT_ASKED. */
  readonly #hits: Int32Array
  readonly #inRecord: boolean
  readonly #protobuf = new ProtobufView()
  readonly #json = new JsonView()
  readonly #check: () => void
  #group = 0
  /** Bytes that a condition on the current record may read. */
  #recordBytes = 0
  #unchecked = 0

  /** @param check called now and then; what it throws ends the run */
  constructor(search: Search, check: () => void) {
    this.#check = check
    this.#condition = this.#compile(search)
    this.#required = requiredOf(search)
    this.required = this.#required?.map(({ text }) => text) ?? null
    this.#finders = (this.#required ?? []).map(({ text }) => new ByteFinder(text))
    this.#inRecord = this.#required?.every(({ inRecord }) => inRecord) ?? false
    this.#hits = new Int32Array(this.#finders.length)
  }

  /**
   * Finds the records that match.
   *
   * @param numbers  of the records to search, ascending: the first `count` ones
   * @param matched  called with the place in `numbers` of each record that matches, and a view of it that is valid during the call
   */
  run(batch: RecordBatch, numbers: Uint16Array, count: number, matched: (at: number, view: RecordView) => void): void {
    batch.gather(numbers, count)
    const { body } = batch
    const isFiltered = this.#required !== null && !batch.mayHaveEscapes
    this.#hits.fill(NOT_ASKED)
    let hit = isFiltered ? this.#firstHit(body, 0, body.byteLength) : 0
    if (hit < 0) return
    const narrows = isFiltered && this.#inRecord
    let lastGroup = -1
    for (let at = 0; at < count; at++) {
      const place = batch.placeOf(numbers[at]!)
      if (narrows) {
        if (hit < place.recordStart) hit = this.#firstHit(body, place.recordStart, body.byteLength)
        if (hit < 0) return
        if (hit >= place.recordEnd) continue
      }
      this.#recordBytes = place.recordEnd - place.recordStart
      if (place.group !== lastGroup) {
        this.#group++
        lastGroup = place.group
        this.#recordBytes += place.resourceEnd - place.resourceStart + place.scopeEnd - place.scopeStart
      }
      const { format, signal } = batch.envelopeOf(numbers[at]!)
      const view = format === FORMAT_JSON ? this.#json : this.#protobuf
      view.seek(body, signal, place, this.#group)
      if (this.#condition(view, narrows ? hit : 0)) matched(at, view)
    }
  }

  /** Where the first of the required texts begins. Each text is searched only behind its last hit. */
  #firstHit(bytes: Buffer, from: number, end: number): number {
    const hits = this.#hits
    let first = -1
    for (let number = 0; number < hits.length; number++) {
      let hit = hits[number]!
      if (hit !== NOWHERE && hit < from) {
        hit = this.#finders[number]!.next(bytes, from, end)
        hits[number] = hit
      }
      if (hit !== NOWHERE && (first === -1 || hit < first)) first = hit
    }
    return first
  }

  /** Counts the bytes that a single condition may read, and calls `check` when they are many. */
  #counted(condition: Condition): Condition {
    return (view, from) => {
      this.#unchecked += this.#recordBytes
      if (this.#unchecked >= BYTES_PER_CHECK) {
        this.#unchecked = 0
        this.#check()
      }
      return condition(view, from)
    }
  }

  #compile(search: Search): Condition {
    switch (search.kind) {
      case 'all':
        return () => true
      case 'and': {
        const all = search.of.map((one) => this.#compile(one))
        return (view) => all.every((one) => one(view, 0)) // `from` is about one required text, and each condition has others
      }
      case 'or': {
        const any = search.of.map((one) => this.#compile(one))
        return (view) => any.some((one) => one(view, 0))
      }
      case 'not': {
        const one = this.#compile(search.of)
        return (view) => !one(view, 0)
      }
      default:
        return this.#counted(compile(search))
    }
  }
}

/** A text that matching records have in their bytes. */
interface RequiredText {
  readonly text: string
  /** True: in the record itself. False: in the record, its resource or its scope. */
  readonly inRecord: boolean
}

/** The search for more texts takes more time than it saves. */
const REQUIRED_MAX = 4

/** Every matching record has at least one of these texts in its bytes. Null: no such texts are known. */
function requiredOf(search: Search): readonly RequiredText[] | null {
  switch (search.kind) {
    case 'text': {
      const text = needleOf(search.words)
      return text === null ? null : [{ text, inRecord: true }]
    }
    case 'name':
      return requiredOfName(search)
    case 'and': {
      const known = search.of.map(requiredOf).filter((one) => one !== null)
      return known.toSorted((a, b) => usefulness(b) - usefulness(a))[0] ?? null
    }
    case 'or': {
      const all: RequiredText[] = []
      for (const one of search.of) {
        const required = requiredOf(one)
        if (required === null) return null
        all.push(...required)
      }
      return all.length > REQUIRED_MAX ? null : all
    }
    default:
      return null
  }
}

/** Longer texts are rarer, and fewer are found sooner; those of the record itself say more. */
const usefulness = (required: readonly RequiredText[]): number =>
  Math.min(...required.map(({ text, inRecord }) => Math.min(text.length, 32) * (inRecord ? 2 : 1))) / required.length

function requiredOfName({ name, value }: NameCondition): readonly RequiredText[] | null {
  if (value.kind !== 'equals' && value.kind !== 'begins') return null
  const { text } = value
  // A number or a boolean may match as well, and is not stored as this text.
  const mayBeOther =
    value.kind === 'begins' ? /^[-0-9]/.test(text) : value.number !== null || /^(true|false)$/.test(text)
  if (text.length < 2 || mayBeOther || !isAscii(text)) return null
  const named = resolveName(name)
  if (named.kind !== 'field') return [{ text, inRecord: named.kind === 'body' }]
  return TEXT_FIELDS.has(named.field) ? [{ text, inRecord: true }] : null
}

const TEXT_FIELDS: ReadonlySet<FieldName> = new Set<FieldName>([
  'severity_text',
  'event_name',
  'trace_state',
  'name',
  'status.message',
])

function compile(search: Exclude<Search, { readonly kind: 'all' | 'and' | 'or' | 'not' }>): Condition {
  switch (search.kind) {
    case 'text': {
      const test = new TextTest(search)
      return (view, from) => view.hasText(test, from)
    }
    case 'name':
      return compileName(search)
    case 'severity': {
      const { min, max } = search
      return (view) => {
        const severity = effectiveSeverity(view)
        return severity !== null && severity >= min && severity <= max
      }
    }
    case 'signal': {
      const isLog = search.signal === 'log'
      return (view) => view.isLog === isLog
    }
  }
}

/** The severity number of a log. If it has none: the one that its severity_text names, or 0. Null: the record is a span. */
export function effectiveSeverity(view: RecordView): number | null {
  if (!view.isLog) return null
  const number = Number(view.field('severity_number'))
  if (number !== 0) return number
  const text = view.field('severity_text')
  return typeof text === 'string' ? (severityOf(text)?.min ?? 0) : 0
}

function compileName({ name, value }: NameCondition): Condition {
  const named = resolveName(name)
  const test = valueTest(value)
  switch (named.kind) {
    case 'field': {
      const { field } = named
      return (view) => {
        const given = view.field(field)
        return given !== null && test(given)
      }
    }
    case 'body':
      return (view) => view.hasInBody(named.path, test)
    case 'attribute':
      return attributeCondition(named.of, named.key, test)
  }
}

/** Tests resource and scope once for consecutive records that share them. */
function attributeCondition(places: readonly AttributePlace[], key: string, test: ValueTest): Condition {
  const shared = places.filter((place) => place !== 'record')
  const inRecord = places.includes('record')
  let group = -1
  let inGroup = false
  return (view) => {
    if (view.group !== group) {
      group = view.group
      inGroup = shared.some((place) => view.hasAttribute(place, key, test))
    }
    return inGroup || (inRecord && view.hasAttribute('record', key, test))
  }
}
