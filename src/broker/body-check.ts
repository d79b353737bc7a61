/** Bodies that come in as objects, checked by their schemas and refused in the words of the routes. */
import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import { describeProblem } from '../validation.ts'
import { refuse } from './refusals.ts'

/** @returns a check that throws BrokerError invalid_request */
export function bodyCheck<Schema extends TSchema>(schema: Schema): (body: unknown) => Static<Schema> {
  const validator = Compile(schema)
  return (body) => {
    if (validator.Check(body)) return body
    throw refuse('invalid_request', describeProblem(validator.Errors(body)[1], schema))
  }
}
