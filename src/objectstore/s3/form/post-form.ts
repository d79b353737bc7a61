/**
 * A browser's upload, `multipart/form-data`, read as it comes in: fields, then the file.
 *
 * F1  all that is not the file (preamble, boundaries, part headers, fields, what follows the file) is FORM_BYTES_MAX at most, so memory is
 *     bounded and a form without end is refused
 * F2  the file is never kept: its bytes are handed on as they come, as views that are valid during the call
 * F3  fields behind the file are ignored, as in S3; a second file is refused
 */
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import { FORM_BYTES_MAX } from '../document-limits.ts'
import { DelimitedContent } from './delimited.ts'
import { FormFields, addField } from './form-fields.ts'
import { parsePartHeaders } from './part-headers.ts'
import type { PartHeaders } from './part-headers.ts'

export interface PostFormSink {
  /** Called once, before the first bytes of the file. It may throw to end the upload. */
  onFields(fields: FormFields): void
  onFile(bytes: Buffer): void
}

type State = 'preamble' | 'boundary end' | 'headers' | 'field' | 'file' | 'epilogue'

const BLANK_LINE = Buffer.from('\r\n\r\n')
const LF = 0x0a
const LINE_END = '\r\n'
const LAST_BOUNDARY_END = '--'
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export class PostForm {
  readonly #content: DelimitedContent
  readonly #sink: PostFormSink
  readonly #fields = new Map<string, string>()
  /** Headers or value of the part that is being read; one buffer for all of them, as all together fit. F1 */
  readonly #text = Buffer.allocUnsafe(FORM_BYTES_MAX)
  #textBytes = 0
  #formBytes = 0
  #state: State = 'preamble'
  #part: PartHeaders | null = null
  #hasFile = false

  constructor(boundary: string, sink: PostFormSink) {
    this.#content = new DelimitedContent(Buffer.from(`\r\n--${boundary}`))
    this.#content.expectAfter(LINE_END.length) // the first boundary has no line before it
    this.#sink = sink
  }

  /** @throws S3Error MalformedPOSTRequest, MaxPostPreDataLengthExceededError, InvalidArgument for a second file; then nothing more may be pushed */
  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) at = this.#state === 'file' ? this.#readFile(chunk, at) : this.#readForm(chunk, at)
  }

  /** @throws S3Error MalformedPOSTRequest when the form is not whole, InvalidArgument when it had no file */
  end(): void {
    if (this.#state !== 'epilogue') throw refuse('MalformedPOSTRequest')
    if (!this.#hasFile) throw notOneFile(0)
  }

  /** F2 */
  #readFile(chunk: Buffer, at: number): number {
    const end = this.#content.scan(chunk, at, (bytes) => this.#sink.onFile(bytes))
    if (end < 0) return chunk.length
    this.#state = 'boundary end'
    return end
  }

  /** F1 */
  #readForm(chunk: Buffer, at: number): number {
    const roomBytes = FORM_BYTES_MAX - this.#formBytes
    if (roomBytes === 0) throw refuse('MaxPostPreDataLengthExceededError')
    const end = this.#readPart(chunk.subarray(0, at + roomBytes), at)
    this.#formBytes += end - at
    return end
  }

  #readPart(chunk: Buffer, at: number): number {
    switch (this.#state) {
      case 'boundary end':
        return this.#readBoundaryEnd(chunk, at)
      case 'headers':
        return this.#readHeaders(chunk, at)
      case 'preamble':
        return this.#readUntilBoundary(chunk, at, false)
      case 'field':
        return this.#readUntilBoundary(chunk, at, true)
      default:
        return chunk.length
    }
  }

  #readUntilBoundary(chunk: Buffer, at: number, keep: boolean): number {
    const end = this.#content.scan(chunk, at, (bytes) => {
      if (keep) this.#keep(bytes)
    })
    if (end < 0) return chunk.length
    if (keep) this.#endField()
    this.#state = 'boundary end'
    return end
  }

  /** After a boundary: a line end and the next part, or two dashes and nothing more. */
  #readBoundaryEnd(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + LINE_END.length - this.#textBytes)
    this.#keep(chunk.subarray(at, end))
    if (this.#textBytes < LINE_END.length) return end
    const text = this.#takeText()
    if (text === LINE_END) this.#state = 'headers'
    else if (text === LAST_BOUNDARY_END) this.#state = 'epilogue'
    else throw refuse('MalformedPOSTRequest')
    return end
  }

  #readHeaders(chunk: Buffer, at: number): number {
    for (let end = at; end < chunk.length; end++) {
      this.#text[this.#textBytes++] = chunk[end]!
      if (chunk[end] !== LF || !this.#textEndsWith(BLANK_LINE)) continue
      this.#beginPart()
      return end + 1
    }
    return chunk.length
  }

  #beginPart(): void {
    const headers = parsePartHeaders(this.#takeText().slice(0, -BLANK_LINE.length))
    this.#part = headers
    if (headers.field.toLowerCase() !== 'file') {
      this.#state = 'field'
      return
    }
    if (this.#hasFile) throw notOneFile(2) // F3
    this.#hasFile = true
    this.#state = 'file'
    this.#sink.onFields(new FormFields(this.#fields, headers.filename ?? '')) // a copy: F3
  }

  #endField(): void {
    addField(this.#fields, this.#part!.field, this.#takeText())
  }

  #keep(bytes: Buffer): void {
    this.#textBytes += bytes.copy(this.#text, this.#textBytes)
  }

  #textEndsWith(bytes: Buffer): boolean {
    return this.#text.subarray(Math.max(0, this.#textBytes - bytes.length), this.#textBytes).equals(bytes)
  }

  #takeText(): string {
    const bytes = this.#text.subarray(0, this.#textBytes)
    this.#textBytes = 0
    try {
      return decoder.decode(bytes)
    } catch (error) {
      throw refuse('MalformedPOSTRequest', undefined, { cause: error })
    }
  }
}

const notOneFile = (files: number): S3Error =>
  refuse('InvalidArgument', 'POST requires exactly one file upload per request.', {
    fields: { ArgumentName: 'file', ArgumentValue: files },
  })
