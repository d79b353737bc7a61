/**
 * What is wrong with a value, in one sentence.
 *
 * V1  it names fields of the schema only: neither a value nor a name that the sender made up is ever repeated
 */
import type { TSchema } from 'typebox'
import type { TLocalizedValidationError } from 'typebox/error'

/**
 * @param schema what the value was checked against
 * @param whole  what the value is called
 */
export function describeProblem(
  errors: readonly TLocalizedValidationError[],
  schema: TSchema,
  whole = 'the body',
): string {
  const first = errors[0]
  if (!first) return `${whole} does not match its schema`
  const { keyword, schemaPath, instancePath } = first
  // `additionalProperties: false` reports the field itself, by its name, which is the sender's (V1)
  if (keyword === 'boolean') {
    const ownerPath = schemaPath.slice(0, schemaPath.lastIndexOf('/'))
    return unknownField(fieldOf(ownerPath, instancePath) || whole, knownFields(schema, ownerPath))
  }
  const field = fieldOf(schemaPath, instancePath)
  if (keyword === 'required') return `${join(field, first.params.requiredProperties[0] ?? '')} is missing`
  const alternatives = errors.filter(
    (error) => error.instancePath === instancePath && error.keyword !== 'anyOf' && error.message.startsWith('must be '),
  )
  if (alternatives.length > 1) {
    // A constant is reported twice, by its type and by its value, for a value of another type. The value says more.
    const constants = new Set(
      alternatives.filter(({ keyword }) => keyword === 'const').map((error) => error.schemaPath),
    )
    const own = alternatives.filter((error) => error.keyword === 'const' || !constants.has(error.schemaPath))
    return `${field || whole} must be ${own.map((error) => expectedIn(error)).join(' or ')}`
  }
  return `${field || whole} ${first.keyword === 'const' ? `must be ${expectedIn(first)}` : first.message}`
}

/** What an error whose message begins with 'must be ' expects. A constant is shown, as it is the schema's (V1). */
const expectedIn = (error: TLocalizedValidationError): string =>
  error.keyword === 'const' ? JSON.stringify(error.params.allowedValue) : error.message.slice('must be '.length)

/**
 * One sentence for every mistake that the check found. The check ends after some mistakes.
 *
 * @see describeProblem
 */
export function describeProblems(
  errors: readonly TLocalizedValidationError[],
  schema: TSchema,
  whole: string,
): readonly [string, ...string[]] {
  // An unknown field has an error of its own; that of its owner says no more.
  const own = errors.filter(({ keyword }) => keyword !== 'additionalProperties')
  const byPlace = Map.groupBy(own, ({ instancePath }) => instancePath)
  const [first = describeProblem(errors, schema, whole), ...others] = new Set(
    [...byPlace.values()].map((ofPlace) => describeProblem(ofPlace, schema, whole)),
  )
  return [first, ...others]
}

/** For code that checks by hand. @param owner the object that has the field */
export const unknownField = (owner: string, known: Iterable<string>, kind = 'field'): string =>
  `${owner} has an unknown ${kind}; known are ${[...known].join(', ') || 'none'}`

/**
 * '#/properties/page/anyOf/0/properties/limit' and '/page/limit' → 'page.limit'; '' for the whole value. Names come from the schema; only the
 * numbers of items come from the instance (V1).
 */
function fieldOf(schemaPath: string, instancePath: string): string {
  const steps = tokensOf(schemaPath)
  const instance = tokensOf(instancePath)
  let field = ''
  for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
    if (step === 'properties') {
      field = join(field, steps.shift() ?? '')
      instance.shift()
    } else if (step === 'items') field = join(field, instance.shift() ?? '')
    else if (step === 'patternProperties') return field === '' ? 'a field' : `a field of ${field}`
    else if (step === 'anyOf') steps.shift()
  }
  return field
}

function knownFields(schema: TSchema, ownerPath: string): string[] {
  let owner: unknown = schema
  for (const token of tokensOf(ownerPath)) owner = memberOf(owner, token)
  const properties = memberOf(owner, 'properties')
  return isObject(properties) ? Object.keys(properties) : []
}

const memberOf = (value: unknown, name: string): unknown => (isObject(value) ? value[name] : undefined)

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** The parts of a JSON pointer (RFC 6901). */
const tokensOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))

const join = (field: string, name: string): string => (field === '' ? name : `${field}.${name}`)
