/**
 * Writes a column of texts, see text-column.ts. A column is used for one block after the other.
 *
 * W1  while there are few distinct values, each gets a number (T4), and a repeated text costs a look into a table. Values are cut into forms once there are
 *     too many
 */
import { ASCII_OF_WORD } from '../search/words.ts'
import { ByteTable, longer } from './byte-table.ts'
import type { ByteWriter } from './byte-writer.ts'
import { writeChoices, writeNumbers, writeTexts } from './number-columns.ts'
import { DIGITS_MAX, FORMS_MAX, NUMBER, PLACEHOLDERS_MAX, WHOLE, WORD } from './text-column.ts'

/** Up to this many distinct values are few, if each comes VALUES_SHARED times on average. */
const VALUES_MAX = 256
const VALUES_SHARED = 8
const VALUE_BYTES_MAX = 256
const VALUES_AT_FIRST = 32

/** How a column is written. */
const AS_VALUES = 0
const AS_FORMS = 1
const AS_WHOLE = 2

/** Cuts a text into its form and its variables. */
class FormScanner {
  form = Buffer.allocUnsafeSlow(4096)
  length = 0
  /** How many placeholders the form has; their kinds, and where their variables begin and end. */
  count = 0
  readonly kinds = new Uint8Array(PLACEHOLDERS_MAX)
  readonly starts = new Uint32Array(PLACEHOLDERS_MAX)
  readonly ends = new Uint32Array(PLACEHOLDERS_MAX)

  /** Fills the fields above. */
  scan(source: Uint8Array, start: number, end: number): void {
    if (this.form.byteLength < end - start) this.form = Buffer.allocUnsafeSlow(2 * (end - start))
    const { form, kinds, starts, ends } = this
    let length = 0
    let count = 0
    for (let at = start; at < end;) {
      const byte = source[at]!
      if (ASCII_OF_WORD[byte] === 0 && byte < 128) {
        if (byte <= WHOLE && byte > 0) return this.#takeWhole(start, end)
        form[length++] = byte
        at++
        continue
      }
      const wordStart = at
      const formStart = length
      let digits = 0
      let bits = 0
      for (; at < end; at++) {
        const next = source[at]!
        if (next < 128 && ASCII_OF_WORD[next] === 0) break
        bits |= next
        if (next >= 0x30 && next <= 0x39) digits++
        form[length++] = next
      }
      if (digits === 0 || bits >= 128) continue
      if (count === PLACEHOLDERS_MAX) return this.#takeWhole(start, end)
      const characters = at - wordStart
      const isNumber = digits === characters && digits <= DIGITS_MAX && (source[wordStart] !== 0x30 || digits === 1)
      length = formStart
      form[length++] = isNumber ? NUMBER : WORD
      kinds[count] = isNumber ? NUMBER : WORD
      starts[count] = wordStart
      ends[count++] = at
    }
    this.length = length
    this.count = count
  }

  #takeWhole(start: number, end: number): void {
    this.form[0] = WHOLE
    this.length = 1
    this.count = 1
    this.kinds[0] = WHOLE
    this.starts[0] = start
    this.ends[0] = end
  }
}

export class TextColumnWriter {
  /** Values since `begin`. */
  count = 0
  /** For the value that was added last: its number among the values, or, if `hasForm`, the number of its form. */
  number = 0
  hasForm = false
  /** Its form tells nothing of its words: it is a whole text, or there are too many forms. */
  isWhole = false
  /** The variables of its form. */
  readonly variables = scanner
  #source: Buffer
  #areFew = true
  readonly #values = new ByteTable()
  readonly #forms = new ByteTable()
  #hasTooManyForms = false
  /** By value in the order of rows: where it begins and ends, and its number or that of its form. */
  #starts = new Uint32Array(VALUES_AT_FIRST)
  #ends = new Uint32Array(VALUES_AT_FIRST)
  #choices = new Uint16Array(VALUES_AT_FIRST)
  /** By value with a form: the number of its first variable in `#first` and `#last`. */
  #variablesAt = new Uint32Array(VALUES_AT_FIRST)
  /** By variable: the value of a number, or where a text begins; `#last` is where it ends. */
  #first = new Float64Array(VALUES_AT_FIRST)
  #last = new Uint32Array(VALUES_AT_FIRST)
  #variables = 0
  #written = AS_VALUES

  /** @param source has the bytes of the values */
  constructor(source: Buffer) {
    this.#source = source
  }

  /** Begins the column of the next block. */
  begin(source: Buffer): void {
    this.#source = source
    this.count = 0
    this.#areFew = true
    this.#values.clear()
    this.#forms.clear()
    this.#hasTooManyForms = false
    this.#variables = 0
  }

  add(start: number, end: number): void {
    if (this.count === this.#starts.length) this.#grow()
    const at = this.count++
    this.#starts[at] = start
    this.#ends[at] = end
    this.hasForm = !this.#areFew
    if (this.#areFew) {
      this.number = end - start > VALUE_BYTES_MAX ? VALUES_MAX : this.#values.numberOf(this.#source, start, end)
      if (this.number < VALUES_MAX) {
        this.#choices[at] = this.number
        return
      }
      this.#findForms(at)
    }
    this.hasForm = true
    this.isWhole = this.#hasTooManyForms
    if (this.isWhole) return
    this.#variablesAt[at] = this.#variables
    this.#choices[at] = this.number = this.#formOf(start, end)
    this.isWhole = scanner.count === 1 && scanner.kinds[0] === WHOLE
    if (this.number === FORMS_MAX) this.#hasTooManyForms = true // T3
  }

  writeHead(into: ByteWriter): void {
    const { count } = this
    if (this.#areFew && this.#values.count * VALUES_SHARED <= count && !hasPlaceholder(this.#values)) {
      this.#written = AS_VALUES // T4
      return writeTable(into, this.#values, this.#choices, count)
    }
    if (this.#areFew) this.#findForms(count)
    this.#written = this.#hasTooManyForms || this.#forms.count > 16 + count / 2 ? AS_WHOLE : AS_FORMS
    if (this.#written === AS_FORMS) return writeTable(into, this.#forms, this.#choices, count)
    into.varint(1) // T3
    into.lengthAndBytes(WHOLE_FORM)
  }

  /** Called after `writeHead`. */
  writeValues(into: ByteWriter): void {
    if (this.#written === AS_WHOLE) writeTexts(into, this.#source, this.#starts, this.#ends, this.count)
    else if (this.#written === AS_FORMS) this.#writeVariables(into)
  }

  #writeVariables(into: ByteWriter): void {
    const { count } = this
    const forms = this.#forms
    const from = new Uint32Array(forms.count + 1)
    for (let at = 0; at < count; at++) from[this.#choices[at]! + 1]!++
    for (let form = 0; form < forms.count; form++) from[form + 1]! += from[form]!
    const next = from.slice()
    const ordered = new Uint32Array(count) // by form: where the variables of its values are
    for (let at = 0; at < count; at++) ordered[next[this.#choices[at]!]!++] = this.#variablesAt[at]!
    const numbers = new Float64Array(count)
    const starts = new Uint32Array(count)
    const ends = new Uint32Array(count)
    for (let form = 0; form < forms.count; form++) {
      const values = from[form + 1]! - from[form]!
      let variable = 0
      for (let byteAt = forms.startOf(form); byteAt < forms.endOf(form); byteAt++) {
        const kind = forms.bytes[byteAt]!
        if (kind === 0 || kind > WHOLE) continue
        for (let i = 0; i < values; i++) {
          const at = ordered[from[form]! + i]! + variable
          if (kind === NUMBER) numbers[i] = this.#first[at]!
          else {
            starts[i] = this.#first[at]!
            ends[i] = this.#last[at]!
          }
        }
        if (kind === NUMBER) writeNumbers(into, numbers, values)
        else writeTexts(into, this.#source, starts, ends, values)
        variable++
      }
    }
  }

  /** W1: cuts values [0, count) into forms. Until now they were numbered as values. */
  #findForms(count: number): void {
    this.#areFew = false
    const forms: number[] = []
    const variablesAt: number[] = []
    for (let at = 0; at < count; at++) {
      const value = this.#choices[at]!
      if (value === forms.length) {
        variablesAt.push(this.#variables)
        forms.push(this.#formOf(this.#starts[at]!, this.#ends[at]!))
      }
      this.#choices[at] = forms[value]!
      this.#variablesAt[at] = variablesAt[value]!
    }
  }

  /** The number of the text's form. Keeps its variables. */
  #formOf(start: number, end: number): number {
    const source = this.#source
    scanner.scan(source, start, end)
    const { count, kinds, starts, ends } = scanner
    while (this.#variables + count > this.#first.length) {
      this.#first = longer(this.#first)
      this.#last = longer(this.#last)
    }
    for (let i = 0; i < count; i++) {
      const isNumber = kinds[i] === NUMBER
      this.#first[this.#variables] = isNumber ? numberAt(source, starts[i]!, ends[i]!) : starts[i]!
      this.#last[this.#variables++] = ends[i]!
    }
    return this.#forms.numberOf(scanner.form, 0, scanner.length)
  }

  #grow(): void {
    this.#starts = longer(this.#starts)
    this.#ends = longer(this.#ends)
    this.#choices = longer(this.#choices)
    this.#variablesAt = longer(this.#variablesAt)
  }
}

const scanner = new FormScanner()
const WHOLE_FORM = Buffer.of(WHOLE)

function writeTable(into: ByteWriter, table: ByteTable, choices: Uint16Array, count: number): void {
  into.varint(table.count)
  for (let number = 0; number < table.count; number++) {
    const [start, end] = [table.startOf(number), table.endOf(number)]
    into.varint(end - start)
    into.copy(table.bytes, start, end)
  }
  writeChoices(into, choices, count, table.count)
}

/** T1 */
function hasPlaceholder(values: ByteTable): boolean {
  const end = values.startOf(values.count)
  for (let at = 0; at < end; at++) if (values.bytes[at]! <= WHOLE && values.bytes[at]! > 0) return true
  return false
}

function numberAt(bytes: Uint8Array, start: number, end: number): number {
  let value = 0
  for (let at = start; at < end; at++) value = value * 10 + bytes[at]! - 0x30
  return value
}
