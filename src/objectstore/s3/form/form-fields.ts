/**
 * The fields of a browser's form, before its file.
 *
 * N1  names are compared in lower case, and `x-obj-…` is `x-amz-…`
 * N2  `${filename}` is filled in everywhere but in the policy, before the fields are read; they stay within the bounds of a form
 */
import { refuse } from '../../refusals.ts'
import { FORM_BYTES_MAX } from '../document-limits.ts'

const FILENAME = '${filename}'
const METADATA = 'x-amz-meta-'

/** N1 */
export const fieldName = (name: string): string => name.toLowerCase().replace(/^x-obj-/, 'x-amz-')

/** Metadata that comes twice becomes a list, as with headers; of any other field the last one counts. */
export function addField(fields: Map<string, string>, name: string, value: string): void {
  const known = fieldName(name)
  const before = known.startsWith(METADATA) ? fields.get(known) : undefined
  fields.set(known, before === undefined ? value : `${before},${value}`)
}

export class FormFields {
  readonly #values = new Map<string, string>()

  /**
   * @param values by name as `fieldName` makes it
   * @param filename of the file, with or without a path
   */
  constructor(values: ReadonlyMap<string, string>, filename: string) {
    const name = filename.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1)
    let length = 0
    for (const [field, value] of values) {
      const pieces = field === 'policy' ? [value] : value.split(FILENAME)
      length += value.length + (pieces.length - 1) * (name.length - FILENAME.length)
      if (length > FORM_BYTES_MAX) throw refuse('MaxPostPreDataLengthExceededError') // N2
      this.#values.set(field, pieces.join(name))
    }
  }

  /** @param name as `fieldName` makes it */
  get(name: string): string | null {
    return this.#values.get(name) ?? null
  }

  /** @param name as S3 writes it, in any case @throws S3Error InvalidArgument when it is missing or empty */
  require(name: string): string {
    const value = this.get(fieldName(name))
    if (value) return value
    const message = `Bucket POST must contain a field named '${name}'.  If it is specified, please check the order of the fields.`
    throw refuse('InvalidArgument', message, { fields: { ArgumentName: name, ArgumentValue: '' } })
  }

  [Symbol.iterator](): MapIterator<[name: string, value: string]> {
    return this.#values.entries()
  }
}
