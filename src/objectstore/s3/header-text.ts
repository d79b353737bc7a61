/**
 * Headers of an answer as they go out (`HeaderLines` of src/http/exchange.ts, as text).
 *
 * T1  a client that speaks S3 also finds each header that S3 has under its S3 name
 * T2  a value cannot end its header: characters that could are replaced by spaces
 */
import type { ShownHeaders } from '../operations.ts'
import type { HeaderLine } from './handler.ts'

const OURS = 'x-obj-'
const OF_METADATA = `${OURS}meta-`
const OWN_HEADER = /^x-obj-(?:bucket-id|object-id|version-id|commit-sequence|durability|error-.+)$/
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const ENDS_A_HEADER = /[\u0000-\u0008\u000a-\u001f\u007f]/

export function headerText(headers: readonly HeaderLine[], speaksS3: boolean): string {
  if (headers.length === 0) return ''
  const parts: string[] = [] // joined at the end: the text is in one piece then, and cheap to put into many answers
  for (const [name, text] of headers) {
    const value = safeValue(text)
    const begins = beginsOf(name)
    parts.push(begins.ours, value)
    if (speaksS3 && begins.theirs !== null) parts.push(begins.theirs, value)
  }
  return parts.join('')
}

/** What stands before a value. */
interface Begins {
  readonly ours: string
  /** T1. Null: S3 has no such header, or it has the same name there. */
  readonly theirs: string | null
}

/** Beginnings of header lines that most answers have; names of metadata are not kept, as they come from clients. */
const known = new Map<string, Begins>()
const KNOWN_MAX = 200

function beginsOf(name: string): Begins {
  let begins = known.get(name)
  if (begins !== undefined) return begins
  const isOfS3 = name.startsWith(OURS) && !OWN_HEADER.test(name)
  begins = { ours: `\r\n${name}: `, theirs: isOfS3 ? `\r\nx-amz-${name.slice(OURS.length)}: ` : null }
  if (known.size < KNOWN_MAX && !name.startsWith(OF_METADATA)) known.set(name, begins)
  return begins
}

/** Headers that many answers have. Only the text is kept: it takes a third of the memory of its lines. */
export class KeptHeaders implements ShownHeaders {
  readonly #make: () => readonly HeaderLine[]
  #own: string | null = null
  #ofS3: string | null = null

  constructor(lines: () => readonly HeaderLine[]) {
    this.#make = lines
  }

  get lines(): readonly HeaderLine[] {
    return this.#make()
  }

  textFor(speaksS3: boolean): string {
    if (speaksS3) return (this.#ofS3 ??= headerText(this.lines, true))
    return (this.#own ??= headerText(this.lines, false))
  }
}

/** T2 */
export const safeValue = (text: string): string =>
  ENDS_A_HEADER.test(text) ? text.replaceAll(new RegExp(ENDS_A_HEADER, 'g'), ' ') : text
