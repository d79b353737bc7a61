/**
 * Checks of values against schemas.
 *
 * Their library comes in 235 modules and makes code of each schema: a tenth of a service's start. So it is loaded when the first value is
 * checked, and a schema is compiled when the first value is checked against it.
 */
import type { Static, TSchema } from 'typebox'
import type { TLocalizedValidationError } from 'typebox/error'
import type * as TypeBox from 'typebox/schema'
import { requirePackage } from './require-package.ts'

export interface SchemaCheck<Schema extends TSchema> {
  accepts(value: unknown): value is Static<Schema>
  /** What is wrong with a value that it does not accept. */
  errors(value: unknown): readonly TLocalizedValidationError[]
}

const library = (): typeof TypeBox => requirePackage('typebox/schema') as typeof TypeBox

/** For a schema that many values are checked against. */
export function schemaCheck<Schema extends TSchema>(schema: Schema): SchemaCheck<Schema> {
  let compiled: TypeBox.Validator<Schema> | null = null
  const validator = (): TypeBox.Validator<Schema> => (compiled ??= library().Compile(schema))
  return {
    accepts: (value): value is Static<Schema> => validator().Check(value),
    errors: (value) => validator().Errors(value)[1],
  }
}

/** For a schema that hardly a value is checked against: nothing is compiled. */
export const isOf = <Schema extends TSchema>(schema: Schema, value: unknown): value is Static<Schema> =>
  library().Check(schema, value)
