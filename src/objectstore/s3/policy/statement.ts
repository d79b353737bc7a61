/**
 * One statement of a bucket policy, checked as S3 checks it when the policy is stored, and made ready for requests.
 */
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import { isObject } from '../../../plain-objects.ts'
import { distinct, wildcard } from './wildcard.ts'
import type { Sliced } from '../slices.ts'
import type { Pattern } from './wildcard.ts'
import { BUCKET_ACTIONS, OBJECT_ACTIONS } from './actions.ts'
import type { PolicyAction } from './actions.ts'
import { describesObject, parseCondition } from './conditions.ts'
import type { Condition, ConditionValues } from './conditions.ts'
import { parsePrincipals } from './principals.ts'

export interface PolicyRequest {
  /** Null: an anonymous caller. */
  readonly principal: string | null
  readonly action: PolicyAction
  readonly bucket: string
  /** Null: the bucket itself. */
  readonly key: string | null
  readonly valuesOf: ConditionValues
  /**
   * True for a part and for the completion of an upload, which do not say what the object is to be: conditions on that were judged when the upload
   * began, so a statement that denies because of them has no effect, and one that allows needs only its other conditions.
   */
  readonly isOfUpload: boolean
}

export interface Statement {
  /** Empty: none. */
  readonly sid: string
  readonly effect: 'Allow' | 'Deny'
  /** Patterns in lower case. */
  readonly actions: readonly string[]
  readonly conditions: readonly Condition[]
  matches(request: PolicyRequest): Sliced<boolean>
  /**
   * Whether the statement could match when the body is read. Two things are open until then: the key of an action on objects, when it is null, and the
   * values of all condition keys of `s3:`.
   */
  mayMatch(request: PolicyRequest): Sliced<boolean>
}

const FIELDS: ReadonlySet<string> = new Set([
  'Sid',
  'Effect',
  'Principal',
  'NotPrincipal',
  'Action',
  'NotAction',
  'Resource',
  'NotResource',
  'Condition',
])
const ACTION = /^(\*|(s3|obj):[A-Za-z*?]+)$/i
const RESOURCE = /^(?:arn:[\w-]*:(?:s3|obj):::)?([^:/][^/]*(?:\/.*)?)$/s
/** Beginning of a variable such as `${aws:username}`. */
const VARIABLE_START = '${'

/**
 * @param bucket whose policy it is: resources must be within it
 * @throws S3Error MalformedPolicy, NotImplemented for policy variables
 */
export function parseStatement(value: unknown, bucket: string): Statement {
  if (!isObject(value)) throw malformed('This policy contains invalid Json')
  for (const field in value) if (!FIELDS.has(field)) throw malformed(`Unknown field ${field}`)
  const { Sid, Effect, Condition } = value
  if (Sid !== undefined && typeof Sid !== 'string') throw malformed('This policy contains invalid Json')
  if (Effect === undefined) throw malformed('Missing required field Effect')
  if (Effect !== 'Allow' && Effect !== 'Deny') throw malformed('Invalid effect')

  const who = oneOf(value, 'Principal')
  if (who.negated && Effect === 'Allow') throw malformed('Allow with NotPrincipal is not allowed.')
  const isNamed = parsePrincipals(who.value)

  const doing = oneOf(value, 'Action')
  const actions = distinct(texts(doing.value).map((action) => parseAction(action)))
  const does = actions.map((action) => wildcard(action))

  const what = oneOf(value, 'Resource')
  const resources = distinct(texts(what.value).map((resource) => parseResource(resource, bucket)))
  const covers = resources.map((resource) => wildcard(resource))
  if (!doing.negated && !what.negated) checkApplicable(actions, resources, bucket)

  const conditions = Condition === undefined ? [] : parseConditions(Condition)
  const coversSomeObject = what.negated ? !coverAllObjects(resources, bucket) : coverObjects(resources)

  function* isFor({ action, principal }: PolicyRequest): Sliced<boolean> {
    return isNamed(principal) !== who.negated && (yield* any(does, action.toLowerCase())) !== doing.negated
  }
  function* isAbout({ key }: PolicyRequest): Sliced<boolean> {
    return (yield* any(covers, key === null ? bucket : `${bucket}/${key}`)) !== what.negated
  }
  function* allHold({ valuesOf }: PolicyRequest, asked: readonly Condition[]): Sliced<boolean> {
    for (const condition of asked) if (!(yield* condition.holds(valuesOf(condition.key)))) return false
    return true
  }
  const ofRequest = conditions.filter(({ key }) => !describesObject(key))
  const isOnObject = ofRequest.length < conditions.length
  const knownBeforeBody = conditions.filter(({ key }) => !key.name.startsWith('s3:'))
  return {
    sid: Sid ?? '',
    effect: Effect,
    actions,
    conditions,
    *matches(request) {
      if (request.isOfUpload && isOnObject && Effect === 'Deny') return false
      const asked = request.isOfUpload ? ofRequest : conditions
      return (yield* isFor(request)) && (yield* isAbout(request)) && (yield* allHold(request, asked))
    },
    *mayMatch(request) {
      if (!(yield* isFor(request))) return false
      const isAnyObject = request.key === null && isOnObjects(request.action)
      if (!(isAnyObject ? coversSomeObject : yield* isAbout(request))) return false
      return yield* allHold(request, knownBeforeBody)
    },
  }
}

const isOnObjects = (action: PolicyAction): boolean => (OBJECT_ACTIONS as readonly PolicyAction[]).includes(action)

/** Whether they cover objects of the bucket, be it some of them. */
const coverObjects = (resources: readonly string[]): boolean =>
  resources.some((pattern) => pattern.includes('/') || pattern.includes('*'))

const coverAllObjects = (resources: readonly string[], bucket: string): boolean =>
  resources.some((pattern) => pattern.endsWith('*') && wildcard(pattern).matches(`${bucket}/`))

function* any(patterns: readonly Pattern[], text: string): Sliced<boolean> {
  for (const pattern of patterns) if (yield* pattern.search(text)) return true
  return false
}

interface Choice {
  readonly value: unknown
  readonly negated: boolean
}

/** `Principal` or `NotPrincipal`, and so on: one of both. */
function oneOf(statement: Readonly<Record<string, unknown>>, field: string): Choice {
  const [value, not] = [statement[field], statement[`Not${field}`]]
  if (value === undefined && not === undefined) throw malformed(`Missing required field ${field}`)
  if (value !== undefined && not !== undefined) throw malformed(`Statement has both ${field} and Not${field}`)
  return value === undefined ? { value: not, negated: true } : { value, negated: false }
}

/** Parses an action in any case. @returns it in lower case */
function parseAction(action: string): string {
  if (!ACTION.test(action)) throw malformed('Policy has invalid action')
  return action.toLowerCase().replace(/^obj:/, 's3:')
}

/** @returns pattern for `bucket` or `bucket/key` */
function parseResource(resource: string, bucket: string): string {
  checkVariables(resource)
  const pattern = RESOURCE.exec(resource)?.[1]
  if (pattern === undefined) throw malformed('Policy has invalid resource')
  const bucketPattern = pattern.split('/', 1)[0]!
  if (!wildcard(bucketPattern).matches(bucket)) throw malformed('Policy has invalid resource')
  return pattern
}

/** An action on objects with the bucket as resource, or the other way round, is a slip that S3 reports. */
function checkApplicable(actions: readonly string[], resources: readonly string[], bucket: string): void {
  const onBucket = resources.some((pattern) => wildcard(pattern).matches(bucket))
  const onObjects = coverObjects(resources)
  for (const action of actions) {
    const pattern = wildcard(action)
    const isBucketAction = BUCKET_ACTIONS.some((each) => pattern.matches(each.toLowerCase()))
    const isObjectAction = OBJECT_ACTIONS.some((each) => pattern.matches(each.toLowerCase()))
    const isUnknown = !isBucketAction && !isObjectAction // one of S3 that this service does not have
    if (isUnknown || (isBucketAction && onBucket) || (isObjectAction && onObjects)) continue
    throw malformed('Action does not apply to any resource(s) in statement')
  }
}

function parseConditions(value: unknown): readonly Condition[] {
  if (!isObject(value)) throw malformed('This policy contains invalid Json')
  return Object.entries(value).flatMap(([operator, keys]) => {
    if (!isObject(keys)) throw malformed('This policy contains invalid Json')
    const entries = Object.entries(keys)
    if (entries.length === 0) throw malformed(`Condition ${operator} has no keys`)
    return entries.map(([key, wanted]) => parseCondition(operator, key, conditionValues(key, wanted)))
  })
}

function conditionValues(key: string, wanted: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(wanted) ? wanted : [wanted]
  if (list.length === 0) throw malformed(`Condition key ${key} has no values`)
  return list.map((each) => {
    if (!['string', 'number', 'boolean'].includes(typeof each)) throw malformed('This policy contains invalid Json')
    const text = String(each)
    checkVariables(text)
    return text
  })
}

function checkVariables(text: string): void {
  if (text.includes(VARIABLE_START)) throw refuse('NotImplemented', 'Policy variables are not implemented')
}

function texts(value: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (list.length === 0 || !list.every((each) => typeof each === 'string')) {
    throw malformed('This policy contains invalid Json')
  }
  return list
}

const malformed = (message: string): S3Error => refuse('MalformedPolicy', message)
