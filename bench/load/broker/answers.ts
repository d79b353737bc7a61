/**
 * Answers read by looking for a name in their bytes: parsing a page of 1000 records would take the load tool longer than serving it
 * takes the broker. A name in quotes with a colon behind it is a member, never part of a text, where quotes are escaped. Only a
 * header of that name could be mistaken for it, and the tool sends no headers.
 */
import type { HttpResponse } from '../http-response-parser.ts'
import { UnreadableAnswerError } from '../workload.ts'

const QUOTE = 0x22
const DIGIT_0 = 0x30

/** The bytes with which a member's value begins, for the functions below. */
export function numberMember(name: string): Buffer {
  return Buffer.from(`"${name}":`)
}

export function textMember(name: string): Buffer {
  return Buffer.from(`"${name}":"`)
}

/**
 * The last member of the name: counts stand behind the records of a page.
 *
 * @throws UnreadableAnswerError when there is none, or it is no whole number
 */
export function lastNumber(body: Buffer, member: Buffer): number {
  return numberAt(body, body.lastIndexOf(member), member)
}

/** @throws UnreadableAnswerError likewise */
export function firstNumber(body: Buffer, member: Buffer): number {
  return numberAt(body, body.indexOf(member), member)
}

function numberAt(body: Buffer, memberAt: number, member: Buffer): number {
  let at = memberAt + member.byteLength
  const digitsAt = at
  let value = 0
  if (memberAt >= 0) {
    for (let digit; (digit = (body[at] ?? 0) - DIGIT_0) >= 0 && digit <= 9; at++) value = value * 10 + digit
  }
  if (memberAt < 0 || at === digitsAt) throw new UnreadableAnswerError(`no number ${member.toString()} in an answer`)
  return value
}

/** The numbers of all members of that name, in order. */
export function allNumbers(body: Buffer, member: Buffer): number[] {
  const numbers: number[] = []
  for (let at = body.indexOf(member); at >= 0; at = body.indexOf(member, at + member.byteLength)) {
    numbers.push(numberAt(body, at, member))
  }
  return numbers
}

/** The first member of the name; null when there is none. */
export function firstText(body: Buffer, member: Buffer): string | null {
  return textAt(body, body.indexOf(member), member)
}

/** The texts of all members of that name, in order. */
export function allTexts(body: Buffer, member: Buffer): string[] {
  const texts: string[] = []
  let at = body.indexOf(member)
  for (let text = textAt(body, at, member); text !== null; text = textAt(body, at, member)) {
    texts.push(text)
    at = body.indexOf(member, at + member.byteLength + text.length)
  }
  return texts
}

function textAt(body: Buffer, memberAt: number, member: Buffer): string | null {
  if (memberAt < 0) return null
  const from = memberAt + member.byteLength
  const to = body.indexOf(QUOTE, from)
  return to < 0 ? null : body.toString('latin1', from, to)
}

/** One of `results`, the answer to a batch. */
export interface BatchResult {
  /** Null when the record was refused. */
  readonly offset: number | null
  /** Code of the refusal; null when there was none. */
  readonly refusal: string | null
}

/**
 * Parses the whole answer: for batches of which something was refused.
 *
 * @throws UnreadableAnswerError
 */
export function batchResults(body: Buffer): readonly BatchResult[] {
  const results: unknown = Object(parseJson(body)).results
  if (!Array.isArray(results)) throw new UnreadableAnswerError('no results in the answer to a batch')
  return results.map((result: unknown) => {
    const { offset, error } = Object(result) as { offset?: unknown; error?: unknown } // checked below
    if (error !== undefined) return { offset: null, refusal: codeOf(error) }
    if (typeof offset !== 'number') throw new UnreadableAnswerError('a result without offset and error')
    return { offset, refusal: null }
  })
}

/** The code of a refusal: `{"error":{"code":…}}`. */
export function refusalKind({ body }: HttpResponse): string {
  try {
    return codeOf(Object(parseJson(body)).error)
  } catch {
    return UNKNOWN // not JSON
  }
}

const UNKNOWN = 'unknown'
const CODE = /^[a-z][a-z0-9_]*$/

function codeOf(error: unknown): string {
  const code: unknown = Object(error).code
  return typeof code === 'string' && CODE.test(code) ? code : UNKNOWN
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch (error) {
    throw new UnreadableAnswerError('an answer that is not JSON', { cause: error })
  }
}
