/** JSON by a schema. */
import type FastJsonStringify from 'fast-json-stringify'
import type { TSchema } from 'typebox'
import { requirePackage } from '../require-package.ts'
import { StoreError } from '../errors.ts'

const library = (): typeof FastJsonStringify => requirePackage('fast-json-stringify') as typeof FastJsonStringify

type Serializer = (value: unknown) => string

/**
 * Compiled when it is first used: those of all routes took a tenth of a start, and hardly a process uses them all. So did the library.
 * What is in the schema is ours to get right.
 *
 * @param formats that the schema names, beside those of JSON Schema
 */
export function serializer(schema: TSchema, formats: readonly string[] = []): Serializer {
  let compiled: Serializer | null = null
  return (value) => {
    compiled ??= library()({ ...schema }, { ajv: { formats: Object.fromEntries(formats.map((each) => [each, true])) } })
    return compiled(value)
  }
}

/**
 * For the start: serializers and checks of schemas are code that is made when it is first used, and a Node may be told to make none.
 *
 * @throws StoreError that says so
 */
export function demandCodeGeneration(): void {
  try {
    // oxlint-disable-next-line no-new, typescript/no-implied-eval -- it makes nothing
    new Function()
  } catch (error) {
    throw new StoreError(
      'invalid',
      'code_generation_disallowed',
      'this Node may not make code from strings, which answers are written with: start it without --disallow-code-generation-from-strings',
      { cause: error },
    )
  }
}
