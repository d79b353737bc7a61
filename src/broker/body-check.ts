/** Bodies that come in as objects, checked by their schemas and refused in the words of the routes. */
import type { Static, TSchema } from 'typebox'
import { schemaCheck } from '../schema-check.ts'
import { describeProblem } from '../validation.ts'
import { refuse } from './refusals.ts'

/** @returns a check that throws BrokerError invalid_request */
export function bodyCheck<Schema extends TSchema>(schema: Schema): (body: unknown) => Static<Schema> {
  const check = schemaCheck(schema)
  return (body) => {
    if (check.accepts(body)) return body
    throw refuse('invalid_request', describeProblem(check.errors(body), schema))
  }
}
