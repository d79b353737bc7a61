/**
 * The policy document of a browser's upload: until when it holds, and what the form may say. Its signature is checked elsewhere.
 *
 * Y1  every field of the form, and the bucket, must be covered by a condition, or the upload is refused. Exempt are the fields that
 *     carry the policy, its signature and checksums, and those that begin with `x-ignore-`
 * Y2  to a condition, a field that the form does not have is an empty text
 */
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import { isObject } from '../../../plain-objects.ts'
import { parseJson } from '../json.ts'
import type { FormFields } from './form-fields.ts'
import { fieldName } from './form-fields.ts'

export interface SizeRange {
  readonly minBytes: number
  readonly maxBytes: number
}

interface FieldCondition {
  readonly operator: 'eq' | 'starts-with'
  /** As in the policy, for the message. */
  readonly field: string
  /** As `fieldName` makes it. */
  readonly name: string
  readonly value: string
}

const ANY_SIZE: SizeRange = { minBytes: 0, maxBytes: Infinity }
const UNCOVERED: ReadonlySet<string> = new Set(['file', 'policy', 'signature', 'x-amz-signature', 'awsaccesskeyid'])
const UNCOVERED_PREFIXES = ['x-ignore-', 'x-amz-checksum-']
const EXPIRATION = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

export class PostPolicy {
  readonly #expiresAtMs: number
  readonly #conditions: readonly FieldCondition[]
  /** The size that `content-length-range` allows the file to have. */
  readonly fileSize: SizeRange

  private constructor(expiresAtMs: number, conditions: readonly FieldCondition[], fileSize: SizeRange) {
    this.#expiresAtMs = expiresAtMs
    this.#conditions = conditions
    this.fileSize = fileSize
  }

  /** @param base64 field `policy` @throws S3Error InvalidPolicyDocument */
  static parse(base64: string): PostPolicy {
    const policy = parseDocument(base64)
    if (!isObject(policy)) throw invalid("Expecting '{'.")
    const { expiration, conditions } = policy
    if (expiration === undefined) throw invalid('Policy missing expiration.')
    if (typeof expiration !== 'string' || !EXPIRATION.test(expiration) || Number.isNaN(Date.parse(expiration))) {
      throw invalid(`Invalid 'expiration' value: ${JSON.stringify(expiration)}`)
    }
    if (conditions === undefined) throw invalid('Policy missing conditions.')
    if (!Array.isArray(conditions)) throw invalid("Invalid 'conditions' value: must be a List.")

    const fieldConditions: FieldCondition[] = []
    let { minBytes, maxBytes } = ANY_SIZE
    for (const each of conditions as readonly unknown[]) {
      const condition = parseCondition(each)
      if ('operator' in condition) fieldConditions.push(condition)
      else {
        minBytes = Math.max(minBytes, condition.minBytes)
        maxBytes = Math.min(maxBytes, condition.maxBytes)
      }
    }
    return new PostPolicy(Date.parse(expiration), fieldConditions, { minBytes, maxBytes })
  }

  /** @throws S3Error AccessDenied when the form is not what the policy allows, or not now */
  check(bucket: string, fields: FormFields, nowMs: number): void {
    if (nowMs > this.#expiresAtMs) throw denied('Policy expired.')
    const contentTypes = (fields.get('content-type') ?? '').split(',').map((entry) => entry.trim()) // split once: there may be many conditions on many types
    for (const { operator, field, name, value } of this.#conditions) {
      const sent = (name === 'bucket' ? bucket : fields.get(name)) ?? '' // Y2
      const entries = name === 'content-type' ? contentTypes : [sent] // a list of content types must begin so in each of its entries
      const holds = operator === 'eq' ? sent === value : entries.every((entry) => entry.startsWith(value))
      if (!holds) throw denied(`Policy Condition failed: ["${operator}", "$${field}", "${value}"]`)
    }
    const extra = this.#uncovered(fields)
    if (extra.length > 0) throw denied(`Extra input fields: ${extra.join(', ')}`)
  }

  /** @param fileBytes of the whole file, or so far @throws S3Error EntityTooLarge */
  checkNotTooLarge(fileBytes: number): void {
    const { maxBytes } = this.fileSize
    if (fileBytes <= maxBytes) return
    throw refuse('EntityTooLarge', undefined, { fields: { ProposedSize: fileBytes, MaxSizeAllowed: maxBytes } })
  }

  /** @param fileBytes of the whole file @throws S3Error EntityTooSmall */
  checkNotTooSmall(fileBytes: number): void {
    const { minBytes } = this.fileSize
    if (fileBytes >= minBytes) return
    throw refuse('EntityTooSmall', undefined, { fields: { ProposedSize: fileBytes, MinSizeAllowed: minBytes } })
  }

  /** Y1 */
  #uncovered(fields: FormFields): readonly string[] {
    const covered = new Set(this.#conditions.map(({ name }) => name))
    const names = new Set(['bucket', ...Array.from(fields, ([name]) => name)])
    return [...names].filter(
      (name) =>
        !covered.has(name) && !UNCOVERED.has(name) && !UNCOVERED_PREFIXES.some((prefix) => name.startsWith(prefix)),
    )
  }
}

function parseCondition(condition: unknown): FieldCondition | SizeRange {
  if (Array.isArray(condition)) return parseListCondition(condition)
  if (!isObject(condition)) throw invalid('Invalid condition test: must be a List or Object.')
  const entries = Object.entries(condition)
  if (entries.length !== 1) {
    throw invalid('Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.')
  }
  const [field, value] = entries[0]!
  if (typeof value !== 'string') throw invalid('Invalid Simple-Condition: value must be a string.')
  return { operator: 'eq', field, name: fieldName(field), value }
}

function parseListCondition(condition: readonly unknown[]): FieldCondition | SizeRange {
  const [word, second, third] = condition
  if (typeof word !== 'string') throw invalid('Invalid Condition: missing operation identifier.')
  const operator = word.toLowerCase()
  if (operator !== 'eq' && operator !== 'starts-with' && operator !== 'content-length-range') {
    throw invalid(`Invalid Condition: unknown operation '${word}'.`)
  }
  if (condition.length !== 3) throw invalid(`Invalid ${operator}: wrong number of arguments.`)
  if (operator === 'content-length-range') return { minBytes: sizeOf(second), maxBytes: sizeOf(third) }
  if (typeof second !== 'string' || !/^\$./s.test(second)) throw invalid(`Invalid ${operator}: not a field.`)
  if (typeof third !== 'string') throw invalid(`Invalid ${operator}: value must be a string.`)
  const field = second.slice(1)
  return { operator, field, name: fieldName(field), value: third }
}

/** Digits count as a number, as in S3. */
function sizeOf(value: unknown): number {
  const size = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
  if (typeof size === 'number' && Number.isSafeInteger(size) && size >= 0) return size
  throw invalid('Invalid content-length-range: not a size.')
}

function parseDocument(base64: string): unknown {
  const encoded = base64.replaceAll(/\s/g, '')
  if (encoded === '') throw invalid("Expecting '{' but found End-of-Input")
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) throw invalid('invalid Base64 encoding.')
  const text = Buffer.from(encoded, 'base64').toString()
  try {
    return parseJson(withoutDollarEscapes(text))
  } catch {
    throw invalid('Invalid JSON.')
  }
}

/** S3 knows one escape that JSON does not: `\$`. */
const withoutDollarEscapes = (json: string): string =>
  json.replaceAll(/\\(.)/gs, (escape, character) => (character === '$' ? '$' : escape))

const invalid = (message: string): S3Error => refuse('InvalidPolicyDocument', `Invalid Policy: ${message}`)

const denied = (message: string): S3Error => refuse('AccessDenied', `Invalid according to Policy: ${message}`)
