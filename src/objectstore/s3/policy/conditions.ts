/**
 * Conditions of a policy statement: operators, and the keys they look at.
 *
 * C1  what is not enforced is refused when the policy is stored: a Deny that silently never applies would be an open door
 * C2  all operators and all keys of a statement must hold (and); of several values of a key one is enough (or), for a negated operator none
 *     may match
 * C3  for a key that the request does not have, a negated operator holds, and others do not; with `IfExists` every operator holds
 * C4  work is counted in steps as in slices.ts, and nothing takes many of them at once: a value of a request may be as long as all its headers
 */
import { BlockList, isIP } from 'node:net'
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import { wildcard } from './wildcard.ts'
import type { Sliced } from '../slices.ts'
import type { Pattern } from './wildcard.ts'

/** Names in lower case, in which they are compared. Those that end in a slash have the key of a tag behind them, in its own case. */
const CONDITION_KEYS = [
  'aws:currenttime',
  'aws:epochtime',
  'aws:referer',
  'aws:securetransport',
  'aws:sourceip',
  'aws:useragent',
  'aws:username',
  's3:delimiter',
  's3:existingobjecttag/',
  's3:if-match',
  's3:if-none-match',
  's3:max-keys',
  's3:objectcreationoperation',
  's3:prefix',
  's3:requestobjecttag/',
  's3:requestobjecttagkeys',
  's3:x-amz-acl',
  's3:x-amz-content-sha256',
  's3:x-amz-copy-source',
  's3:x-amz-metadata-directive',
  's3:x-amz-server-side-encryption',
  's3:x-amz-server-side-encryption-aws-kms-key-id',
  's3:x-amz-server-side-encryption-customer-algorithm',
  's3:x-amz-storage-class',
] as const

type ConditionKeyName = (typeof CONDITION_KEYS)[number]

/** Keys of what an object is to be, beside its key and its bytes: an upload in parts says that once, when it begins. */
const OF_NEW_OBJECT: ReadonlySet<ConditionKeyName> = new Set([
  's3:requestobjecttag/',
  's3:requestobjecttagkeys',
  's3:x-amz-acl',
  's3:x-amz-server-side-encryption',
  's3:x-amz-server-side-encryption-aws-kms-key-id',
  's3:x-amz-server-side-encryption-customer-algorithm',
  's3:x-amz-storage-class',
])

export const describesObject = ({ name }: ConditionKey): boolean => OF_NEW_OBJECT.has(name)

/** What a condition asks the request for; `tag` is the key of a tag, else empty. */
export interface ConditionKey {
  readonly name: ConditionKeyName
  readonly tag: string
}

/** Values of the request for a key; none: the request does not have it. */
export type ConditionValues = (key: ConditionKey) => readonly string[]

export interface Condition {
  readonly key: ConditionKey
  /** C4 */
  holds(values: readonly string[]): Sliced<boolean>
}

const NUMBER = /^[+-]?\d+(\.\d+)?$/
const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/

/** @throws S3Error MalformedPolicy for a value it cannot be compared with */
type Comparison = (value: string) => Test
type Test = ((text: string) => boolean) | Pattern

const numberOf = (text: string): number => (NUMBER.test(text) ? Number(text) : Number.NaN)
/** ISO 8601, or seconds since 1970. */
const timeOf = (text: string): number =>
  NUMBER.test(text) ? Number(text) * 1000 : ISO_TIME.test(text) ? Date.parse(text) : Number.NaN

const ordered =
  (parse: (text: string) => number, holds: (asked: number, wanted: number) => boolean): Comparison =>
  (value) => {
    const wanted = parse(value)
    if (Number.isNaN(wanted)) throw malformed(`Invalid value ${JSON.stringify(value)} in condition`)
    return (text) => holds(parse(text), wanted) // NaN gives false
  }

const sameText: Comparison = (value) => (text) => text === value
const sameTextIgnoringCase: Comparison = (value) => {
  const wanted = value.toLowerCase()
  return (text) => text.toLowerCase() === wanted
}
const truth: Comparison = (value) => {
  const wanted = value.toLowerCase()
  if (wanted !== 'true' && wanted !== 'false') throw malformed(`Invalid value ${JSON.stringify(value)} in condition`)
  return (text) => text.toLowerCase() === wanted
}
const address: Comparison = (value) => {
  const [network = '', prefix, ...more] = value.split('/')
  const family = isIP(network)
  const bits = family === 4 ? 32 : 128
  const prefixBits = prefix === undefined ? bits : Number(prefix)
  const isPrefix = prefix === undefined || (/^\d{1,3}$/.test(prefix) && prefixBits <= bits)
  if (family === 0 || !isPrefix || more.length > 0) throw malformed('Invalid IP address in Conditions')
  const addresses = new BlockList()
  addresses.addSubnet(network, prefixBits, family === 4 ? 'ipv4' : 'ipv6')
  return (text) => isIP(text) !== 0 && addresses.check(text, isIP(text) === 4 ? 'ipv4' : 'ipv6')
}

const equal = (asked: number, wanted: number): boolean => asked === wanted
const below = (asked: number, wanted: number): boolean => asked < wanted
const atMost = (asked: number, wanted: number): boolean => asked <= wanted
const above = (asked: number, wanted: number): boolean => asked > wanted
const atLeast = (asked: number, wanted: number): boolean => asked >= wanted

const POSITIVE: ReadonlyMap<string, Comparison> = new Map([
  ['StringEquals', sameText],
  ['StringEqualsIgnoreCase', sameTextIgnoringCase],
  ['StringLike', wildcard],
  ['NumericEquals', ordered(numberOf, equal)],
  ['NumericLessThan', ordered(numberOf, below)],
  ['NumericLessThanEquals', ordered(numberOf, atMost)],
  ['NumericGreaterThan', ordered(numberOf, above)],
  ['NumericGreaterThanEquals', ordered(numberOf, atLeast)],
  ['DateEquals', ordered(timeOf, equal)],
  ['DateLessThan', ordered(timeOf, below)],
  ['DateLessThanEquals', ordered(timeOf, atMost)],
  ['DateGreaterThan', ordered(timeOf, above)],
  ['DateGreaterThanEquals', ordered(timeOf, atLeast)],
  ['Bool', truth],
  ['IpAddress', address],
])

const NEGATED: ReadonlyMap<string, Comparison> = new Map([
  ['StringNotEquals', sameText],
  ['StringNotEqualsIgnoreCase', sameTextIgnoringCase],
  ['StringNotLike', wildcard],
  ['NumericNotEquals', ordered(numberOf, equal)],
  ['DateNotEquals', ordered(timeOf, equal)],
  ['NotIpAddress', address],
])

/**
 * @param operator as in the policy, with `ForAllValues:` or `ForAnyValue:` before it and `IfExists` behind it when they are there
 * @throws S3Error MalformedPolicy
 */
export function parseCondition(operator: string, keyText: string, values: readonly string[]): Condition {
  const key = parseKey(keyText)
  if (operator === 'Null') return { key, holds: nullOperator(values) }
  const [, set = '', name = '', ifExists = ''] = /^(ForAllValues:|ForAnyValue:)?(.*?)(IfExists)?$/s.exec(operator) ?? []
  const comparison = POSITIVE.get(name) ?? NEGATED.get(name)
  if (comparison === undefined) throw malformed(`Invalid Condition type : ${operator}`)
  if (comparison === address && key.name !== 'aws:sourceip') throw malformed('Invalid IP address in Conditions')

  const negated = NEGATED.has(name)
  const tests = Array.from(new Set(values), comparison)
  const whenAbsent = ifExists !== '' || set === 'ForAllValues:' || (negated && set === '') // C3
  // several values of a request without a set operator: a negated one holds when none of them matches
  const every = set === 'ForAllValues:' || (negated && set === '')
  return {
    key,
    *holds(asked) {
      if (asked.length === 0) return whenAbsent
      for (const text of asked) if (((yield* passesOne(tests, text)) !== negated) !== every) return !every
      return every
    },
  }
}

/** Steps that any test but a pattern counts for. */
const STEPS_OF_TEST = 100

/** C4 */
function* passesOne(tests: readonly Test[], text: string): Sliced<boolean> {
  for (const test of tests) {
    if (typeof test !== 'function') {
      if (yield* test.search(text)) return true
    } else {
      yield STEPS_OF_TEST + text.length
      if (test(text)) return true
    }
  }
  return false
}

function nullOperator(values: readonly string[]): Condition['holds'] {
  const tests = values.map(truth)
  return (asked) => passesOne(tests, String(asked.length === 0))
}

/** Parses a name in any case, with the neutral prefixes of this service or those of S3. */
function parseKey(text: string): ConditionKey {
  const slash = text.indexOf('/')
  const [head, tag] = slash < 0 ? [text, ''] : [text.slice(0, slash + 1), text.slice(slash + 1)]
  const wanted = head
    .toLowerCase()
    .replace(/^obj:/, 's3:')
    .replace(/^s3:x-obj-/, 's3:x-amz-')
  const name = CONDITION_KEYS.find((each) => each === wanted)
  if (name === undefined || (slash >= 0 && tag === '')) throw malformed('Policy has an invalid condition key')
  return { name, tag }
}

const malformed = (message: string): S3Error => refuse('MalformedPolicy', message)
