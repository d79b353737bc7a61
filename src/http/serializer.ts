/** Serialises values to JSON by a schema. */
import type FastJsonStringify from 'fast-json-stringify'
import type { TSchema } from 'typebox'
import { requirePackage } from '../require-package.ts'
import { StoreError } from '../errors.ts'

const library = (): typeof FastJsonStringify => requirePackage('fast-json-stringify') as typeof FastJsonStringify

type Serializer = (value: unknown) => string

/**
 * A serialiser is compiled when it is first used: compiling those of all routes took a tenth of a start, loading the library another, and few processes
 * use them all. A wrong schema shows only then, and is a bug of ours.
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
 * Checks at the start that this Node may make code from strings, as serialisers and checks of schemas do when they are first used.
 *
 * @throws StoreError when Node was told to make none
 */
export function demandCodeGeneration(): void {
  try {
    // oxlint-disable-next-line no-new, typescript/no-implied-eval -- it makes nothing
    new Function()
  } catch (error) {
    throw new StoreError(
      'invalid',
      'code_generation_disallowed',
      'answers are serialised by generated code, which this Node forbids: start it without --disallow-code-generation-from-strings',
      { cause: error },
    )
  }
}
