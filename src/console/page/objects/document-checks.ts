/**
 * What is wrong with a document of a bucket, before it is sent. The object store is the judge: these checks say the same earlier, and where. Mistakes
 * that they do not know, as in names of actions and conditions, are refused by the store.
 */

type Fields = Readonly<Record<string, unknown>>

const POLICY_FIELDS: ReadonlySet<string> = new Set(['Version', 'Id', 'Statement'])
const VERSIONS: ReadonlySet<unknown> = new Set([undefined, '2012-10-17', '2008-10-17'])
const CHOICES = ['Principal', 'Action', 'Resource'] as const
const STATEMENT_FIELDS: ReadonlySet<string> = new Set([
  'Sid',
  'Effect',
  'Condition',
  ...CHOICES.flatMap((name) => [name, `Not${name}`]),
])
const PRINCIPALS: ReadonlySet<string> = new Set(['AWS', 'CanonicalUser'])
const ACTION = /^(\*|(s3|obj):[A-Za-z*?]+)$/i
const RESOURCE = /^(?:arn:[\w-]*:(?:s3|obj):::)?([^:/][^/]*)(?:\/.*)?$/s

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value])

/** Why the policy cannot be stored; null: the store may take it. */
export function policyProblem(text: string, bucket: string): string | null {
  let policy: unknown
  try {
    policy = JSON.parse(text)
  } catch (error) {
    return `It is no JSON: ${error instanceof Error ? error.message : ''}`
  }
  if (!isObject(policy)) return 'A policy is an object with Version and Statement.'
  const unknown = Object.keys(policy).find((name) => !POLICY_FIELDS.has(name))
  if (unknown !== undefined) return `A policy has no ${unknown}.`
  if (!VERSIONS.has(policy['Version'])) return 'Version must be "2012-10-17" or "2008-10-17".'
  const { Statement: given } = policy
  const statements = given === undefined ? [] : listOf(given)
  if (statements.length === 0) return 'The policy has no Statement.'
  const ids = new Set<unknown>()
  for (const [at, statement] of statements.entries()) {
    const problem = statementProblem(statement, bucket)
    if (problem !== null) return `Statement ${at + 1}: ${problem}`
    const { Sid } = statement as Fields // it has no problem
    if (Sid !== undefined && Sid !== '' && ids.has(Sid))
      return `Statement ${at + 1}: another one has the Sid ${shown(Sid)}.`
    ids.add(Sid)
  }
  return null
}

function statementProblem(statement: unknown, bucket: string): string | null {
  if (!isObject(statement)) return 'it must be an object.'
  const unknown = Object.keys(statement).find((name) => !STATEMENT_FIELDS.has(name))
  if (unknown !== undefined) return `there is no ${unknown}.`
  const { Sid, Effect, NotPrincipal, Condition } = statement
  if (Sid !== undefined && typeof Sid !== 'string') return 'Sid must be a text.'
  if (Effect !== 'Allow' && Effect !== 'Deny') return 'Effect must be Allow or Deny.'
  for (const name of CHOICES) {
    const [has, hasNot] = [name in statement, `Not${name}` in statement]
    if (!has && !hasNot) return `it has no ${name}.`
    if (has && hasNot) return `it has both ${name} and Not${name}.`
  }
  if (NotPrincipal !== undefined && Effect === 'Allow') return 'NotPrincipal goes with Deny alone.'
  if (!isPrincipal(statement['Principal'] ?? NotPrincipal))
    return 'Principal must be "*", or an object as {"AWS": ["alice"]}.'
  for (const action of listOf(statement['Action'] ?? statement['NotAction'])) {
    if (typeof action !== 'string' || !ACTION.test(action)) return `${shown(action)} is no action, as in s3:GetObject.`
  }
  for (const resource of listOf(statement['Resource'] ?? statement['NotResource'])) {
    if (isOfBucket(resource, bucket)) continue
    return `${shown(resource)} is not in the bucket: write arn:aws:s3:::${bucket} for the bucket itself, or arn:aws:s3:::${bucket}/* for its objects.`
  }
  if (Condition !== undefined && !(isObject(Condition) && Object.values(Condition).every(isObject)))
    return 'Condition must be an object of operators, each with an object of keys.'
  return null
}

const shown = (value: unknown): string => JSON.stringify(value)

function isOfBucket(resource: unknown, bucket: string): boolean {
  const [, pattern] = typeof resource === 'string' ? (RESOURCE.exec(resource) ?? []) : []
  if (pattern === undefined) return false
  const source = pattern
    .replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`)
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  return new RegExp(`^${source}$`, 's').test(bucket)
}

/** Everybody, or principals by name. */
function isPrincipal(value: unknown): boolean {
  if (value === '*') return true
  if (!isObject(value)) return false
  const names = Object.entries(value)
  const areNamed = names.every(
    ([kind, named]) => PRINCIPALS.has(kind) && listOf(named).every((each) => typeof each === 'string' && each !== ''),
  )
  return names.length > 0 && areNamed
}

const RULES_MAX = 100
const ID_LENGTH_MAX = 255
const METHODS = ['GET', 'PUT', 'POST', 'DELETE', 'HEAD']
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const isStarred = (text: string): boolean => text.indexOf('*') !== text.lastIndexOf('*')

/** By element of a rule: what is wrong with one value of it; null: nothing is. */
const RULE_ELEMENTS: ReadonlyMap<string, (text: string) => string | null> = new Map([
  ['ID', (text) => (text.length > ID_LENGTH_MAX ? `must have at most ${ID_LENGTH_MAX} characters` : null)],
  ['AllowedOrigin', (text) => (isStarred(text) ? 'may have one * at most' : null)],
  ['AllowedMethod', (text) => (METHODS.includes(text) ? null : `must be one of ${METHODS.join(', ')}`)],
  [
    'AllowedHeader',
    (text) => (isStarred(text) ? 'may have one * at most' : HEADER_NAME.test(text) ? null : 'is no name of a header'),
  ],
  [
    'ExposeHeader',
    (text) => (text.includes('*') ? 'may have no *' : HEADER_NAME.test(text) ? null : 'is no name of a header'),
  ],
  ['MaxAgeSeconds', (text) => (/^\d{1,9}$/.test(text.trim()) ? null : 'must be a number of seconds')],
])
const NEEDED = ['AllowedOrigin', 'AllowedMethod']
const ONCE = ['ID', 'MaxAgeSeconds']

/** Elements of one rule, each with its text. */
export type CorsRule = readonly (readonly [name: string, text: string])[]

/** Why the rules cannot be stored; null: the store may take them. */
export function corsRulesProblem(rules: readonly CorsRule[]): string | null {
  if (rules.length === 0) return 'It has no CORSRule.'
  if (rules.length > RULES_MAX) return `It has more than ${RULES_MAX} rules.`
  for (const [at, rule] of rules.entries()) {
    const problem = corsRuleProblem(rule)
    if (problem !== null) return `Rule ${at + 1} ${problem}.`
  }
  return null
}

function corsRuleProblem(rule: CorsRule): string | null {
  const count = (wanted: string): number => rule.filter(([name]) => name === wanted).length
  const missing = NEEDED.find((name) => count(name) === 0)
  if (missing !== undefined) return `has no ${missing}`
  const twice = ONCE.find((name) => count(name) > 1)
  if (twice !== undefined) return `has more than one ${twice}`
  for (const [name, text] of rule) {
    const check = RULE_ELEMENTS.get(name)
    if (check === undefined) return `may have no ${name}`
    const problem = check(text)
    if (problem !== null) return `has ${name} ${text}, which ${problem}`
  }
  return null
}
