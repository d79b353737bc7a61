/**
 * Checks of values against schemas.
 *
 * The library has 235 modules and generates code for each schema: that took a tenth of a service's start. So it is loaded when the first value is
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
    errors(value) {
      const errors = validator().Errors(shortened(schema, value))[1]
      return errors.length > 0 ? errors : validator().Errors(value)[1]
    },
  }
}

/** The parts of a schema that bound the length of a value. */
interface Bounds {
  readonly maxItems?: number
  readonly items?: Bounds
  readonly maxProperties?: number
  readonly properties?: Readonly<Record<string, Bounds>>
}

/**
 * The value, with lists and objects cut to one item or field more than their schema allows. So finding what is wrong takes no longer for a list of a
 * hundred thousand items than for one of a thousand.
 */
function shortened(schema: Bounds, value: unknown): unknown {
  const { maxItems = Infinity, items, maxProperties = Infinity, properties } = schema
  if (Array.isArray(value)) {
    const kept: unknown[] = value.length > maxItems ? value.slice(0, maxItems + 1) : value
    return items === undefined ? kept : kept.map((item) => shortened(items, item))
  }
  if (typeof value !== 'object' || value === null) return value
  if (properties === undefined)
    return maxProperties === Infinity ? value : Object.fromEntries(Object.entries(value).slice(0, maxProperties + 1))
  const fields = Object.entries(value)
  const known = fields.filter(([name]) => Object.hasOwn(properties, name))
  const unknown = fields.filter(([name]) => !Object.hasOwn(properties, name)).slice(0, 1)
  return Object.fromEntries([...known.map(([name, field]) => [name, shortened(properties[name]!, field)]), ...unknown])
}

/** For a schema that few values are checked against: nothing is compiled. */
export const isOf = <Schema extends TSchema>(schema: Schema, value: unknown): value is Static<Schema> =>
  library().Check(schema, value)
