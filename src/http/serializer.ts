/** JSON by a schema. */
import fastJsonStringify from 'fast-json-stringify'
import type { TSchema } from 'typebox'

type Serializer = (value: unknown) => string

/**
 * Compiled when it is first used, unlike validators: those of all routes took a tenth of a start, and hardly a process uses them all.
 * What is in the schema is ours to get right.
 *
 * @param formats that the schema names, beside those of JSON Schema
 */
export function serializer(schema: TSchema, formats: readonly string[] = []): Serializer {
  let compiled: Serializer | null = null
  return (value) => {
    compiled ??= fastJsonStringify(
      { ...schema },
      { ajv: { formats: Object.fromEntries(formats.map((each) => [each, true])) } },
    )
    return compiled(value)
  }
}
