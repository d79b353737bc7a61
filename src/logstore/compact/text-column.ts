/**
 * A column of texts as forms and variables. A form is a text with a placeholder for each word that has a digit in it; what the code of a service
 * writes has few forms. So a column is a table of forms, the number of one for each value, and the variables by form and by place, where they
 * are of one kind.
 *
 *   head     forms varint, 0: none; each form: length varint, bytes. Then the number of the form of each value, see writeChoices
 *   values   by form, then by placeholder: numbers, see writeNumbers; or lengths, likewise, and the texts back to back
 *
 * T1  a placeholder is a byte that no form has otherwise: 1 a number of up to 15 digits without a zero before it, 2 another word, 3 a whole text.
 *     A text that has such a byte itself, or too many placeholders, is a whole text
 * T2  a word that is a variable is ASCII, and so is what stands beside it: it is a word by itself for searches, too (W1 of search/words.ts)
 * T3  a column whose values share too few forms has one, of a whole text
 * T4  a column of few values has a form for each, without placeholders
 */
import { ASCII_OF_WORD } from '../search/words.ts'
import { ByteReader } from './byte-reader.ts'
import type { ByteWriter } from './byte-writer.ts'
import { LOWER } from '../search/byte-finder.ts'
import { readChoices, readNumbers, skipNumbers, writeChoices, writeNumbers } from './number-columns.ts'

export const NUMBER = 1
const WORD = 2
export const WHOLE = 3
const DIGITS_MAX = 15
const FORMS_MAX = 4096
const PLACEHOLDERS_MAX = 64
/** As many values are few, when each stands there so often on average. */
const VALUES_MAX = 256
const VALUES_SHARED = 8
const VALUE_BYTES_MAX = 256
const WHOLE_FORM = Buffer.of(WHOLE)

const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39

/** Values of one placeholder of one form. */
interface Variable {
  readonly kind: number
  /** The value of a number; else where the text stands. */
  readonly first: number[]
  readonly last: number[]
}

interface WrittenForm {
  readonly bytes: Buffer
  readonly variables: readonly Variable[]
}

export class TextColumnWriter {
  readonly #source: Buffer
  /** The values of the column while they are few (T4), with the number of each; and the number of each value that was added. */
  readonly #values = new Map<string, number>()
  readonly #valueChoices: number[] = []
  readonly #starts: number[] = []
  readonly #ends: number[] = []
  #choices: number[] = []
  #forms: WrittenForm[] = []
  readonly #byText = new Map<string, number>()
  #scratch = Buffer.allocUnsafe(4096)
  /** The placeholders of the value at hand, and where their words stand. */
  readonly #kinds: number[] = []
  readonly #first: number[] = []
  readonly #last: number[] = []

  /** @param source what the values stand in */
  constructor(source: Buffer) {
    this.#source = source
  }

  get count(): number {
    return this.#starts.length
  }

  add(start: number, end: number): void {
    this.#starts.push(start)
    this.#ends.push(end)
    this.#noteValue(start, end)
    if (this.#forms.length > FORMS_MAX) return // T3
    const bytes = this.#formOf(start, end)
    const text = bytes.toString('latin1')
    let number = this.#byText.get(text)
    if (number === undefined) {
      number = this.#forms.length
      this.#byText.set(text, number)
      const variables = this.#kinds.map((kind): Variable => ({ kind, first: [], last: [] }))
      this.#forms.push({ bytes: Buffer.from(bytes), variables })
    }
    this.#choices.push(number)
    const { variables } = this.#forms[number]!
    for (let i = 0; i < variables.length; i++) {
      variables[i]!.first.push(this.#first[i]!)
      variables[i]!.last.push(this.#last[i]!)
    }
  }

  writeHead(into: ByteWriter): void {
    const forms = this.#forms.length
    if (this.#hasFewValues()) this.#makeValues()
    else if (forms > FORMS_MAX || forms > 16 + this.count / 2) this.#makeWhole()
    into.varint(this.#forms.length)
    for (const { bytes } of this.#forms) into.lengthAndBytes(bytes)
    writeChoices(into, Uint16Array.from(this.#choices), this.count, this.#forms.length)
  }

  writeValues(into: ByteWriter): void {
    for (const { variables } of this.#forms) {
      for (const { kind, first, last } of variables) {
        if (kind === NUMBER) {
          writeNumbers(into, Float64Array.from(first), first.length)
          continue
        }
        const lengths = Float64Array.from(first, (start, i) => last[i]! - start)
        writeNumbers(into, lengths, lengths.length)
        for (let i = 0; i < first.length; i++) into.copy(this.#source, first[i], last[i])
      }
    }
  }

  #noteValue(start: number, end: number): void {
    const values = this.#values
    if (values.size > VALUES_MAX) return
    if (end - start > VALUE_BYTES_MAX) {
      for (let i = 0; i <= VALUES_MAX; i++) values.set(String(i), i) // they are not few
      return
    }
    const text = this.#source.toString('latin1', start, end)
    let number = values.get(text)
    if (number === undefined) values.set(text, (number = values.size))
    this.#valueChoices.push(number)
  }

  #hasFewValues(): boolean {
    const { size } = this.#values
    if (size > VALUES_MAX || size * VALUES_SHARED > this.count) return false
    // oxlint-disable-next-line no-control-regex
    return [...this.#values.keys()].every((text) => !/[\u0001-\u0003]/.test(text)) // T1
  }

  /** T4 */
  #makeValues(): void {
    this.#forms = Array.from(this.#values.keys(), (text) => ({ bytes: Buffer.from(text, 'latin1'), variables: [] }))
    this.#choices = this.#valueChoices
  }

  /** T3 */
  #makeWhole(): void {
    const whole = { kind: WHOLE, first: this.#starts, last: this.#ends }
    this.#forms = [{ bytes: WHOLE_FORM, variables: [whole] }]
    this.#choices = Array.from({ length: this.count }, () => 0)
  }

  /** Also sets the fields of the value at hand. */
  #formOf(start: number, end: number): Buffer {
    const source = this.#source
    if (this.#scratch.byteLength < end - start) this.#scratch = Buffer.allocUnsafe(2 * (end - start))
    const form = this.#scratch
    this.#kinds.length = 0
    this.#first.length = 0
    this.#last.length = 0
    let length = 0
    for (let at = start; at < end;) {
      const byte = source[at]!
      if (ASCII_OF_WORD[byte] === 0 && byte < 128) {
        if (byte <= WHOLE && byte > 0) return this.#wholeOf(start, end)
        form[length++] = byte
        at++
        continue
      }
      const wordStart = at
      let digits = 0
      let isAscii = true
      for (; at < end; at++) {
        const next = source[at]!
        if (next >= 128) isAscii = false
        else if (ASCII_OF_WORD[next] === 0) break
        else if (isDigit(next)) digits++
      }
      if (digits === 0 || !isAscii) {
        for (let i = wordStart; i < at; i++) form[length++] = source[i]!
        continue
      }
      if (this.#kinds.length === PLACEHOLDERS_MAX) return this.#wholeOf(start, end)
      const characters = at - wordStart
      const isNumber = digits === characters && digits <= DIGITS_MAX && (source[wordStart] !== 0x30 || digits === 1)
      form[length++] = isNumber ? NUMBER : WORD
      this.#kinds.push(isNumber ? NUMBER : WORD)
      this.#first.push(isNumber ? numberAt(source, wordStart, at) : wordStart)
      this.#last.push(at)
    }
    return form.subarray(0, length)
  }

  #wholeOf(start: number, end: number): Buffer {
    this.#kinds.splice(0, Infinity, WHOLE)
    this.#first.splice(0, Infinity, start)
    this.#last.splice(0, Infinity, end)
    return WHOLE_FORM
  }
}

function numberAt(bytes: Uint8Array, start: number, end: number): number {
  let value = 0
  for (let at = start; at < end; at++) value = value * 10 + bytes[at]! - 0x30
  return value
}

export interface Form {
  readonly bytes: Buffer
  /** Kinds of its placeholders. */
  readonly kinds: readonly number[]
  /** What stands before, between and behind them. */
  readonly pieces: readonly Buffer[]
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
    const lengths = readNumbers(from, count)
    const ends = new Uint32Array(count + 1)
    for (let i = 0; i < count; i++) ends[i + 1] = ends[i]! + lengths[i]!
    this.ends = ends
    this.texts = from.take(ends[count]!)
  }

  get numbers(): Float64Array {
    return (this.#numbers ??= readNumbers(this.#from, this.count))
  }

  write(into: ByteWriter, at: number): void {
    if (this.isNumber) writeDigits(into, this.numbers[at]!)
    else into.copy(this.texts, this.ends[at], this.ends[at + 1])
  }

  /** Sets a 1 for each value that is this word, folded and in ASCII. */
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
  readonly forms: readonly Form[]
  /** By value. */
  readonly choices: Uint16Array
  readonly #ofForm: Uint32Array
  #variables: readonly (readonly ReadVariable[])[] | null = null
  /** By value: which of the values of its form it is. */
  #places: Uint32Array | null = null

  constructor(head: ByteReader, count: number) {
    const forms: Form[] = []
    for (let left = head.varint(); left > 0; left--) forms.push(formOf(head.lengthAndBytes()))
    this.forms = forms
    this.choices = readChoices(head, count, forms.length)
    this.#ofForm = new Uint32Array(forms.length)
    for (const form of this.choices) this.#ofForm[form]!++
  }

  /** Before the first of the calls below. */
  readValues(from: ByteReader): void {
    this.#variables = this.forms.map(({ kinds }, form) =>
      kinds.map((kind) => new ReadVariable(from, kind, this.#ofForm[form]!)),
    )
  }

  /** Which of the values of a form have a word that is a variable, such as every word with a digit that stands between ASCII. */
  valuesWithWord(form: number, word: string): Uint8Array {
    const marks = new Uint8Array(this.#ofForm[form]!)
    for (const variable of this.#variables![form]!) variable.markEqual(word, marks)
    return marks
  }

  /** The value of a form that comes there as number `at`, as it stood in its record. */
  write(into: ByteWriter, form: number, at: number): void {
    const { kinds, pieces } = this.forms[form]!
    const variables = this.#variables![form]!
    into.copy(pieces[0]!)
    for (let i = 0; i < kinds.length; i++) {
      variables[i]!.write(into, at)
      into.copy(pieces[i + 1]!)
    }
  }

  /** A value as it stood in its record. */
  writeValue(into: ByteWriter, value: number): void {
    this.#places ??= this.#findPlaces()
    this.write(into, this.choices[value]!, this.#places[value]!)
  }

  #findPlaces(): Uint32Array {
    const next = new Uint32Array(this.forms.length)
    return Uint32Array.from(this.choices, (form) => next[form]!++)
  }
}

const NOTHING = Buffer.alloc(0)
const NO_ENDS = new Uint32Array(0)

function formOf(bytes: Buffer): Form {
  const kinds: number[] = []
  const pieces: Buffer[] = []
  let start = 0
  for (let at = 0; at < bytes.byteLength; at++) {
    const byte = bytes[at]!
    if (byte === 0 || byte > WHOLE) continue
    kinds.push(byte)
    pieces.push(bytes.subarray(start, at))
    start = at + 1
  }
  return { bytes, kinds, pieces: [...pieces, bytes.subarray(start)] }
}

function writeDigits(into: ByteWriter, value: number): void {
  into.reserve(DIGITS_MAX)
  let digits = 1
  for (let limit = 10; value >= limit; limit *= 10) digits++
  const { bytes } = into
  let left = value
  for (let at = into.at + digits - 1; at >= into.at; at--) {
    const rest = Math.floor(left / 10)
    bytes[at] = 0x30 + (left - rest * 10)
    left = rest
  }
  into.at += digits
}
