/**
 * Judges a search by the texts and numbers of a block, without the other values. A row matches, it does not match, or its record has to be read.
 *
 * S1  MATCHES and NO_MATCH agree with the matcher of records (search/matcher.ts) for every record; MUST_READ promises nothing
 * S2  a form (text-column.ts) decides for all of its texts if no word of the search has a digit: each word that a placeholder stands for has one, and keeps
 *     its neighbours apart. With a prefix, all placeholders have to be numbers, as other variables may begin with letters
 */
import { SIGNAL_LOG } from '../batch-frame.ts'
import type { NameCondition, Search, TextCondition, ValueCondition } from '../search/expression.ts'
import { resolveName } from '../search/names.ts'
import type { FieldName } from '../search/names.ts'
import { ByteFinder } from '../search/byte-finder.ts'
import { TextTest, needleOf } from '../search/text-test.ts'
import { valueTest } from '../search/values.ts'
import { fold, isAscii } from '../search/words.ts'
import type { ValueTest } from '../search/values.ts'
import { pairOf } from './block-counts.ts'
import type { BlockTexts } from './block-reader.ts'
import type { CompactBlock } from './compact-directory.ts'
import { judgeNumbers, judgeOfField } from './block-numbers.ts'
import { ByteWriter } from './byte-writer.ts'
import { maySeverityBe } from './block-writer.ts'
import type { Group } from './block-writer.ts'
import { viewOfGroup } from './group-view.ts'
import { TEXT } from './otlp-fields.ts'
import { NO_SEVERITY, UNKNOWN_SEVERITY, severitiesOfRows } from './row-severities.ts'
import type { Shape, Shapes } from './shapes.ts'
import { NUMBER, WHOLE } from './text-column.ts'
import { PAIRS } from './token-counts.ts'
import { keyHashOf, mayHoldToken, pairHash, wordHash } from './token-filter.ts'
import type { Form } from './text-column.ts'
import { MATCHES, MUST_READ, NO_MATCH, isKnown } from './verdict.ts'
import type { Verdict } from './verdict.ts'

type Judge = (texts: BlockTexts, shapes: Shapes) => Verdict

export function judgeOf(search: Search): Judge {
  switch (search.kind) {
    case 'all':
      return () => MATCHES
    case 'and': {
      const all = search.of.map(judgeOf)
      return (texts, shapes) => combined(all, texts, shapes, NO_MATCH, Math.min)
    }
    case 'or': {
      const any = search.of.map(judgeOf)
      return (texts, shapes) => combined(any, texts, shapes, MATCHES, Math.max)
    }
    case 'not': {
      const one = judgeOf(search.of)
      return (texts, shapes) => negated(one(texts, shapes))
    }
    case 'text':
      return judgeOfText(search)
    case 'severity':
      return judgeOfSeverity(search.min, search.max)
    case 'signal':
      return ({ groups, rowGroup }) => {
        const isLog = search.signal === 'log'
        return byChoice(
          groups.map(({ signal }) => ((signal === SIGNAL_LOG) === isLog ? MATCHES : NO_MATCH)),
          rowGroup,
        )
      }
    case 'name':
      return judgeOfName(search)
  }
}

/** @param decisive verdict that no other changes */
function combined(
  judges: readonly Judge[],
  texts: BlockTexts,
  shapes: Shapes,
  decisive: number,
  choose: (a: number, b: number) => number,
): Verdict {
  let verdict: Verdict = MATCHES - decisive
  for (const judge of judges) {
    if (verdict === decisive) break
    const next = judge(texts, shapes)
    if (typeof next === 'number' && typeof verdict === 'number') verdict = choose(verdict, next)
    else if (next === decisive) verdict = decisive
    else {
      const [one, other]: readonly [Uint8Array, Verdict] =
        typeof next === 'number' ? [verdict as Uint8Array, next] : [next, verdict] // one of the two is no number
      verdict = one.map((each, row) => choose(each, typeof other === 'number' ? other : other[row]!))
    }
  }
  return verdict
}

const negated = (verdict: Verdict): Verdict =>
  typeof verdict === 'number' ? MATCHES - verdict : verdict.map((each) => MATCHES - each)

/** The verdicts of rows. @param verdicts by choice @param choices by row */
function byChoice(verdicts: readonly number[], choices: Uint16Array): Verdict {
  const [first = NO_MATCH] = verdicts
  if (verdicts.every((each) => each === first)) return first
  const rows = new Uint8Array(choices.length)
  for (let row = 0; row < rows.length; row++) rows[row] = verdicts[choices[row]!]!
  return rows
}

const hasDigit = (word: string): boolean => /[0-9]/.test(word)

function judgeOfText(condition: TextCondition): Judge {
  const test = new TextTest(condition)
  const { words, prefix } = condition
  const isAboutNumbers = words.some(hasDigit)
  const plain = words.find((word) => !hasDigit(word) && !(prefix && word === words.at(-1)))
  const plainTest = plain === undefined ? null : new TextTest({ kind: 'text', words: [plain], prefix: false })
  // A form without this word cannot pass, unless it is a whole text: placeholders stand for words with digits.
  const needle = needleOf(words.filter((word) => !hasDigit(word) && !(prefix && word === words.at(-1))))
  const finder = needle === null ? null : new ByteFinder(needle)
  const variable = words.find((word) => hasDigit(word) && isAscii(word) && !(prefix && word === words.at(-1)))
  const inValue: ValueTestInBytes = (bytes, end) => test.inBytes(bytes, 0, end)
  const ofForm = ({ bytes, kinds, pieces }: Form): number => {
    if (kinds.length === 0) return test.inBytes(bytes, 0, bytes.byteLength) ? MATCHES : NO_MATCH
    if (kinds.includes(WHOLE)) return MUST_READ
    const shown = Buffer.from(pieces.map((piece) => piece.toString('latin1')).join('0'), 'latin1')
    const isExact = !isAboutNumbers && (!prefix || kinds.every((kind) => kind === NUMBER))
    if (isExact) return test.inBytes(shown, 0, shown.byteLength) ? MATCHES : NO_MATCH
    return plainTest !== null && !plainTest.inBytes(shown, 0, shown.byteLength) ? NO_MATCH : MUST_READ
  }
  return (texts, shapes) =>
    byColumns(
      texts,
      (shape) => (isKnown(shape) ? [...shape.columns].filter((column) => shapes.columns[column]!.isSearched) : null),
      (column) => judgeTexts(texts, column, ofForm, inValue, finder, variable),
    )
}

interface JudgedColumn {
  readonly verdicts: Uint8Array
  /** By value: the number of its verdict. Null: each value has its own. */
  readonly choices: Uint16Array | null
}

/** Whether the value in bytes [0, end) passes. */
type ValueTestInBytes = (bytes: Buffer, end: number) => boolean

/**
 * Judges the forms, and the values of those forms that leave the verdict open.
 *
 * @param needle   a text in every form that may pass, except whole texts; null: none is known, and all forms are judged
 * @param variable a word with a digit that every value that passes has; without one, all values of open forms are judged
 */
function judgeTexts(
  texts: BlockTexts,
  number: number,
  ofForm: (form: Form) => number,
  inValue: ValueTestInBytes,
  needle: ByteFinder | null,
  variable?: string,
): JudgedColumn {
  const column = texts.texts.get(number)!
  const { choices, formCount } = column
  const ofForms = new Uint8Array(formCount) // NO_MATCH
  const mayPassForms = needle === null ? ofForms.keys() : column.formsThatMayHold(needle)
  for (const form of mayPassForms) ofForms[form] = ofForm(column.form(form))
  if (!ofForms.includes(MUST_READ)) return { verdicts: ofForms, choices }
  texts.values()
  const mayPass = Array.from(ofForms, (verdict, form) =>
    variable !== undefined && verdict === MUST_READ && hasItsDigitsApart(column.form(form))
      ? column.valuesWithWord(form, variable)
      : null,
  )
  const verdicts = new Uint8Array(choices.length)
  const next = new Uint32Array(formCount)
  for (let i = 0; i < verdicts.length; i++) {
    const form = choices[i]!
    const at = next[form]!++
    if (ofForms[form] !== MUST_READ) verdicts[i] = ofForms[form]!
    else if (mayPass[form]?.[at] !== 0) {
      value.reset()
      column.write(value, form, at)
      verdicts[i] = inValue(value.bytes, value.at) ? MATCHES : NO_MATCH
    }
  }
  return { verdicts, choices: null }
}

/** Scratch: the value that is judged. */
const value = new ByteWriter()

/** Whether each word with a digit is a variable: words beside characters beyond ASCII are not, see T2 of text-column.ts. */
const hasItsDigitsApart = ({ kinds, pieces }: Form): boolean =>
  !kinds.includes(WHOLE) && pieces.every((piece) => piece.every((byte) => byte < 128))

/**
 * For each row the highest verdict of its values in some columns.
 *
 * @param columnsOf the columns of a shape that count, each as often as the shape has it; null: its records have to be read
 */
function byColumns(
  texts: BlockTexts,
  columnsOf: (shape: Shape) => readonly number[] | null,
  judgeColumn: (column: number) => JudgedColumn,
): Verdict {
  const { shapes, rowShape, rows } = texts
  const chosen = shapes.map(columnsOf)
  const judged = new Map<number, JudgedColumn>()
  let isAllSame = true
  let first = -1
  const judge = (number: number): JudgedColumn => {
    let its = judged.get(number)
    if (its === undefined) {
      its = judgeColumn(number)
      judged.set(number, its)
      for (const verdict of its.verdicts) {
        if (first < 0) first = verdict
        if (verdict !== first) isAllSame = false
      }
    }
    return its
  }
  for (const columns of chosen) for (const column of columns ?? []) judge(column)
  if (isAllSame && first <= NO_MATCH && chosen.every((columns) => columns !== null)) return NO_MATCH
  // A cursor passes every value of its column, also in rows whose shape does not count.
  const all = new Set(chosen.flatMap((columns) => columns ?? []))
  const cursors = [...all].map((number) => new Cursor(judge(number)))
  const places = new Map([...all].map((number, place) => [number, place]))
  const passed = shapes.map(({ columns }) => [...columns].flatMap((column) => places.get(column) ?? []))
  const verdicts = new Uint8Array(rows)
  for (let row = 0; row < rows; row++) {
    const shape = rowShape[row]!
    let best = chosen[shape] === null ? MUST_READ : NO_MATCH
    const its = passed[shape]!
    for (let i = 0; i < its.length; i++) {
      const verdict = cursors[its[i]!]!.next()
      if (verdict > best && chosen[shape] !== null) best = verdict
    }
    verdicts[row] = best
  }
  return verdicts
}

class Cursor {
  readonly #choices: Uint16Array | null
  readonly #verdicts: Uint8Array
  #at = 0

  constructor({ choices, verdicts }: JudgedColumn) {
    this.#choices = choices
    this.#verdicts = verdicts
  }

  next(): number {
    const at = this.#at++
    return this.#verdicts[this.#choices === null ? at : this.#choices[at]!]!
  }
}

function judgeOfSeverity(min: number, max: number): Judge {
  return (texts, bundle) =>
    Uint8Array.from(severitiesOfRows(texts, bundle), (severity) => {
      if (severity === UNKNOWN_SEVERITY) return MUST_READ
      return severity !== NO_SEVERITY && severity >= min && severity <= max ? MATCHES : NO_MATCH
    })
}

/** Judges attributes of resources and scopes, attributes of records that are texts or numbers, and fields that are numbers. */
function judgeOfName({ name, value }: NameCondition): Judge {
  const named = resolveName(name)
  const test = valueTest(value)
  if (named.kind === 'field') return judgeOfField(named.field, test) ?? (() => MUST_READ)
  if (named.kind === 'body') return () => MUST_READ
  const { key, of } = named
  const ofForm = ({ bytes, kinds, pieces }: Form): number => {
    if (kinds.length === 0) return test(bytes.toString()) ? MATCHES : NO_MATCH
    if (value.kind === 'exists') return MATCHES
    return kinds.includes(WHOLE) || mayFormPass(value, pieces) ? MUST_READ : NO_MATCH
  }
  const inValue: ValueTestInBytes = (bytes, end) => test(bytes.toString('utf8', 0, end))
  const inGroups = (texts: BlockTexts): Verdict =>
    byChoice(
      texts.groups.map((group) =>
        ofGroup(
          group,
          of.filter((place) => place !== 'record'),
          key,
          test,
        ),
      ),
      texts.rowGroup,
    )
  const inRecords: Judge = (texts, shapes) =>
    byColumns(
      texts,
      (shape) => {
        if (!isKnown(shape)) return null
        const mayBe = shape.attributes.filter((each) => each === key || key.startsWith(`${each}.`))
        const columns = [...shape.columns].filter((column) => shapes.columns[column]!.attribute === key)
        return mayBe.length === columns.length ? columns : null
      },
      (column) => {
        const { kind } = shapes.columns[column]!
        if (kind === TEXT) return judgeTexts(texts, column, ofForm, inValue, null)
        return { verdicts: judgeNumbers(texts.numbers(column), kind, test), choices: null }
      },
    )
  return (texts, shapes) => {
    const judges = [inGroups, ...(of.includes('record') ? [inRecords] : [])]
    return combined(judges, texts, shapes, MATCHES, Math.max)
  }
}

/** Whether a text may pass that has these pieces before, between and behind its variables. */
function mayFormPass(value: ValueCondition, pieces: readonly Buffer[]): boolean {
  if (value.kind === 'compare') return pieces.every((piece) => /^[-+.eE]*$/.test(piece.toString('latin1')))
  if (value.kind !== 'equals') return true
  return value.text.startsWith(fold(pieces[0]!.toString())) && value.text.endsWith(fold(pieces.at(-1)!.toString()))
}

function ofGroup(
  group: Group,
  places: readonly ('resource' | 'scope' | 'record')[],
  key: string,
  test: ValueTest,
): number {
  const view = viewOfGroup(group)
  if (view === null) return MUST_READ
  return places.some((each) => view.hasAttribute(each, key, test)) ? MATCHES : NO_MATCH
}

/** False: no record of a block with this filter matches. A block without a filter may hold any word. */
export type FilterTest = (filter: Uint32Array | null, block: Pick<CompactBlock, 'severities' | 'counted'>) => boolean

export function filterTestOf(search: Search): FilterTest {
  switch (search.kind) {
    case 'and': {
      const all = search.of.map(filterTestOf)
      return (filter, block) => all.every((one) => one(filter, block))
    }
    case 'or': {
      const any = search.of.map(filterTestOf)
      return (filter, block) => any.some((one) => one(filter, block))
    }
    case 'text': {
      const { words, prefix } = search
      return needing(prefix ? words.slice(0, -1) : words)
    }
    case 'name': {
      const needsWords = needing(wordsOfValue(search))
      const pair = pairOf(search)
      if (pair === null) return needsWords
      const value = Buffer.from(pair.value, 'latin1')
      const hash = pairHash(keyHashOf(pair.key), value, 0, value.byteLength)
      return (filter, block) =>
        needsWords(filter, block) && (filter === null || (block.counted & PAIRS) === 0 || mayHoldToken(filter, hash))
    }
    case 'severity': {
      const { min, max } = search
      return (_filter, { severities }) => maySeverityBe(severities, min, max)
    }
    default:
      return () => true
  }
}

/** @param words that every matching record has; those that are not ASCII are in no filter */
function needing(words: readonly string[]): FilterTest {
  const hashes = words.filter(isAscii).map((word) => wordHash(Buffer.from(word, 'latin1'), 0, word.length))
  return (filter) => filter === null || hashes.every((hash) => mayHoldToken(filter, hash))
}

/** The fields whose texts are in filters. */
const TEXT_FIELDS: ReadonlySet<FieldName> = new Set<FieldName>([
  'severity_text',
  'event_name',
  'trace_state',
  'name',
  'status.message',
])

function wordsOfValue({ name, value }: NameCondition): readonly string[] {
  if (value.kind !== 'equals' && value.kind !== 'begins') return []
  const { text } = value
  // A number or a boolean may match as well, and filters hold texts only.
  const mayBeOther =
    value.kind === 'begins' ? /^[-0-9]/.test(text) : value.number !== null || /^(true|false)$/.test(text)
  const named = resolveName(name)
  if (mayBeOther || !isAscii(text) || (named.kind === 'field' && !TEXT_FIELDS.has(named.field))) return []
  const words = text.match(/[A-Za-z0-9_]+/g) ?? []
  return value.kind === 'begins' ? words.slice(0, -1) : words
}
