/**
 * Reads a column of texts as forms and variables; text-column-writer.ts writes it. A form is a text with a placeholder for each word that has a digit in
 * it. The texts that the code of a service writes have few forms. So a column is a table of forms, the number of the form of each value, and the variables
 * by form and placeholder, where they are of one kind.
 *
 *   head     forms varint, 0: none; each form: length varint, bytes. Then the number of the form of each value, see writeChoices
 *   values   by form, then by placeholder: numbers, see writeNumbers; or lengths, likewise, and the texts back to back
 *
 * T1  a placeholder is a byte that no form has otherwise: 1 for a number of up to 15 digits without leading zeros, 2 for another word, 3 for a whole text.
 *     A text that has such a byte itself, or would have too many placeholders, is a whole text
 * T2  a variable is an ASCII word between ASCII characters, so it is a word for searches, too (W1 of search/words.ts)
 * T3  a column whose values share too few forms has a single form: a whole text
 * T4  a column of few values has a form for each, without placeholders
 */
import { ByteReader } from './byte-reader.ts'
import type { ByteWriter } from './byte-writer.ts'
import { LOWER } from '../search/byte-finder.ts'
import type { ByteFinder } from '../search/byte-finder.ts'
import { readChoices, readEnds, readNumbers, skipNumbers, sumNumbers } from './number-columns.ts'

export const NUMBER = 1
export const WORD = 2
export const WHOLE = 3
export const DIGITS_MAX = 15
export const FORMS_MAX = 4096
export const PLACEHOLDERS_MAX = 64
export class Form {
  readonly bytes: Buffer
  /** The kinds of its placeholders, and where they are in the bytes. */
  readonly kinds: readonly number[]
  readonly places: readonly number[]
  #pieces: readonly Buffer[] | null = null

  constructor(bytes: Buffer) {
    this.bytes = bytes
    const kinds: number[] = []
    const places: number[] = []
    for (let at = 0; at < bytes.byteLength; at++) {
      const byte = bytes[at]!
      if (byte === 0 || byte > WHOLE) continue
      kinds.push(byte)
      places.push(at)
    }
    this.kinds = kinds
    this.places = places
  }

  /** What stands before, between and behind its placeholders. Made when a search asks: there may be thousands of forms. */
  get pieces(): readonly Buffer[] {
    return (this.#pieces ??= [...this.places, this.bytes.byteLength].map((end, i) =>
      this.bytes.subarray(i === 0 ? 0 : this.places[i - 1]! + 1, end),
    ))
  }
}

/** The values of one placeholder of one form; numbers are read when they are asked for. */
class ReadVariable {
  readonly isNumber: boolean
  readonly count: number
  readonly texts: Buffer
  /** Where each text begins, and the last one ends. */
  readonly ends: Uint32Array
  readonly #from: ByteReader
  #numbers: Float64Array | null = null

  /** Moves `from` behind them. */
  constructor(from: ByteReader, kind: number, count: number) {
    this.count = count
    this.isNumber = kind === NUMBER
    this.#from = new ByteReader(from.bytes)
    this.#from.at = from.at
    if (this.isNumber) {
      skipNumbers(from, count)
      this.texts = NOTHING
      this.ends = NO_ENDS
      return
    }
    this.ends = readEnds(from, count)
    this.texts = from.take(this.ends[count]!)
  }

  get numbers(): Float64Array {
    return (this.#numbers ??= readNumbers(this.#from, this.count))
  }

  write(into: ByteWriter, at: number): void {
    if (this.isNumber) writeDigits(into, this.numbers[at]!)
    else into.copy(this.texts, this.ends[at], this.ends[at + 1])
  }

  /** Sets a mark for each value that is the word. @param word folded, in ASCII */
  markEqual(word: string, marks: Uint8Array): void {
    if (this.isNumber) {
      const number = /^(0|[1-9][0-9]*)$/.test(word) && word.length <= DIGITS_MAX ? Number(word) : -1
      if (number < 0) return
      const { numbers } = this
      for (let at = 0; at < numbers.length; at++) if (numbers[at] === number) marks[at] = 1
      return
    }
    const { ends, texts } = this
    const bytes = Buffer.from(word, 'latin1')
    const length = bytes.byteLength
    for (let at = 0; at < this.count; at++) {
      const start = ends[at]!
      if (ends[at + 1]! - start !== length) continue
      let i = 0
      while (i < length && LOWER[texts[start + i]!] === bytes[i]) i++
      if (i === length) marks[at] = 1
    }
  }
}

export class TextColumn {
  readonly formCount: number
  /** By value: the number of its form. */
  readonly choices: Uint16Array
  /** The bytes of all forms. [start, end) of a form are at 2 * form in `#formPlaces`. */
  readonly #head: Buffer
  readonly #formPlaces: Uint32Array
  /** Forms that were asked for: there may be thousands, for two values each. */
  readonly #forms: (Form | undefined)[] = []
  /** By form, after `readValues`: how many values it has, and where they begin. */
  #countOfForm = NO_ENDS
  #valuesAt = NO_ENDS
  #values: Buffer = NOTHING
  readonly #variables: (readonly ReadVariable[] | undefined)[] = []
  /** By value: which of the values of its form it is. */
  #places: Uint32Array | null = null

  constructor(head: ByteReader, count: number) {
    this.formCount = head.varint()
    this.#head = head.bytes
    this.#formPlaces = new Uint32Array(2 * this.formCount)
    for (let at = 0; at < this.#formPlaces.length; at += 2) {
      const bytes = head.varint()
      this.#formPlaces[at] = head.at
      head.skip(bytes)
      this.#formPlaces[at + 1] = head.at
    }
    this.choices = readChoices(head, count, this.formCount)
  }

  form(number: number): Form {
    const [start, end] = [this.#formPlaces[2 * number]!, this.#formPlaces[2 * number + 1]!]
    return (this.#forms[number] ??= new Form(this.#head.subarray(start, end)))
  }

  /** The forms that contain a text, and those of a whole text, which may hold anything. One scan finds them, as there may be thousands of forms. */
  formsThatMayHold(text: ByteFinder): number[] {
    if (this.formCount === 0) return []
    const places = this.#formPlaces
    const head = this.#head
    const [start, end] = [places[0]!, places.at(-1)!]
    const found = new Set<number>()
    const findAll = (next: (from: number) => number): void => {
      for (let at = next(start); at >= 0 && at < end;) {
        const form = this.#formAt(at)
        const isInside = at < places[2 * form + 1]! // else the hit is in the length of the next form
        if (isInside) found.add(form)
        at = next(isInside ? places[2 * form + 1]! : at + 1)
      }
    }
    findAll((from) => text.next(head, from, end))
    findAll((from) => head.indexOf(WHOLE, from))
    return [...found]
  }

  /** The last form that begins there or before. */
  #formAt(at: number): number {
    let low = 0
    let high = this.formCount
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#formPlaces[2 * middle]! <= at) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  /** Called before the methods below. */
  readValues(from: ByteReader): void {
    const ofForm = new Uint32Array(this.formCount)
    for (const form of this.choices) ofForm[form]!++
    this.#values = from.bytes
    this.#valuesAt = new Uint32Array(this.formCount)
    this.#countOfForm = ofForm
    const head = this.#head
    for (let form = 0; form < this.formCount; form++) {
      this.#valuesAt[form] = from.at
      const end = this.#formPlaces[2 * form + 1]!
      for (let at = this.#formPlaces[2 * form]!; at < end; at++) {
        const byte = head[at]!
        if (byte <= WHOLE && byte > 0) skipVariable(from, byte, ofForm[form]!)
      }
    }
  }

  #variablesOf(form: number): readonly ReadVariable[] {
    const known = this.#variables[form]
    if (known !== undefined) return known
    const from = new ByteReader(this.#values)
    from.at = this.#valuesAt[form]!
    const count = this.#countOfForm[form]!
    return (this.#variables[form] = this.form(form).kinds.map((kind) => new ReadVariable(from, kind, count)))
  }

  /** Marks the values of a form that have the word as a variable. A word with a digit between ASCII characters always is one. */
  valuesWithWord(form: number, word: string): Uint8Array {
    const marks = new Uint8Array(this.#countOfForm[form]!)
    for (const variable of this.#variablesOf(form)) variable.markEqual(word, marks)
    return marks
  }

  /** Writes value number `at` of a form, as it was in its record. */
  write(into: ByteWriter, form: number, at: number): void {
    const { bytes, places } = this.form(form)
    if (places.length === 0) return into.copy(bytes)
    const variables = this.#variablesOf(form)
    let from = 0
    for (let i = 0; i < places.length; i++) {
      into.copy(bytes, from, places[i])
      variables[i]!.write(into, at)
      from = places[i]! + 1
    }
    into.copy(bytes, from)
  }

  /** Writes a value as it was in its record. */
  writeValue(into: ByteWriter, value: number): void {
    const form = this.choices[value]!
    const { kinds, bytes } = this.form(form)
    if (kinds.length === 0) return into.copy(bytes)
    this.#places ??= this.#findPlaces()
    this.write(into, form, this.#places[value]!)
  }

  #findPlaces(): Uint32Array {
    const { choices } = this
    const next = new Uint32Array(this.formCount)
    const places = new Uint32Array(choices.length)
    for (let value = 0; value < choices.length; value++) places[value] = next[choices[value]!]!++
    return places
  }
}

const NOTHING = Buffer.alloc(0)
const NO_ENDS = new Uint32Array(0)

/** Moves behind the values of a placeholder. */
function skipVariable(from: ByteReader, kind: number, count: number): void {
  if (kind === NUMBER) skipNumbers(from, count)
  else from.skip(sumNumbers(from, count))
}

function writeDigits(into: ByteWriter, value: number): void {
  into.reserve(DIGITS_MAX)
  let digits = 1
  for (let limit = 10; value >= limit; limit *= 10) digits++
  const { bytes } = into
  let left = value
  let at = into.at + digits - 1
  for (; left > INTEGER_MAX; at--) {
    const rest = Math.floor(left / 10)
    bytes[at] = 0x30 + (left - rest * 10)
    left = rest
  }
  for (let integer = left | 0; at >= into.at; at--) {
    const rest = (integer / 10) | 0
    bytes[at] = 0x30 + (integer - rest * 10)
    integer = rest
  }
  into.at += digits
}

/** Numbers up to this one are divided without floating point. */
const INTEGER_MAX = 2 ** 31 - 1
