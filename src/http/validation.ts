/** What is wrong with a value, in one sentence that names the first bad field and never its value. */
import type { TLocalizedValidationError } from 'typebox/error'

const NAME_CHARACTERS_MAX = 64

export function describeProblem(errors: readonly TLocalizedValidationError[]): string {
  const first = errors[0]
  if (!first) return 'the body does not match its schema'
  const field = fieldOf(first.instancePath)
  const here = errors.filter((error) => error.instancePath === first.instancePath)
  if (first.keyword === 'boolean') return `${field} is not a known field` // `additionalProperties: false`
  if (first.keyword === 'required') return `${join(field, first.params.requiredProperties[0] ?? '')} is missing`
  const alternatives = here.filter((error) => error.keyword !== 'anyOf' && error.message.startsWith('must be '))
  if (alternatives.length > 1) {
    return `${field} must be ${alternatives.map((error) => error.message.slice('must be '.length)).join(' or ')}`
  }
  return `${field} ${first.message}`
}

/** '/page/limit' → 'page.limit' */
function fieldOf(instancePath: string): string {
  if (instancePath === '') return 'the body'
  return fieldName(instancePath.slice(1).replaceAll('/', '.'))
}

/** A name the sender made up is shown only while it looks like a name. */
export const fieldName = (name: string): string =>
  name.length <= NAME_CHARACTERS_MAX && /^[\w.-]+$/.test(name) ? name : 'a field'

function join(field: string, name: string): string {
  return field === 'the body' ? name : `${field}.${name}`
}
