/**
 * Makes JSON schemas whose types TypeScript knows.
 *
 * The types are those of TypeBox, and the schemas are equal to the ones that it makes. But its own makers have 374 modules, and a process
 * would spend a fifth of its start on loading them.
 *
 * TypeBox's own marks are hidden, as no serialiser may see them: TypeBox's checks find them, JSON and loops over the keys do not.
 */
import type { TProperties, TSchema, Type as TypeBox } from 'typebox'

type Options = Readonly<Record<string, unknown>>
type Made = Options & { readonly properties?: TProperties }

const KEY_PATTERN = '^.*$'

const hide = (schema: object, name: string, value: unknown): object =>
  Object.defineProperty(schema, name, { value, configurable: true, writable: true, enumerable: false })

const make = (kind: string, schema: object, options?: Options): object => hide({ ...schema, ...options }, '~kind', kind)

/** A copy that has the hidden marks, too. */
const copyOf = (schema: object): object => Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema))

const isOptional = (schema: object): boolean => '~optional' in schema

const optional = (schema: object): object => hide(copyOf(schema), '~optional', true)

function object(properties: TProperties, options?: Options): object {
  const required = Object.keys(properties).filter((name) => !isOptional(properties[name]!))
  return make('Object', { type: 'object', ...(required.length > 0 && { required }), properties }, options)
}

function refine(schema: TSchema, check: unknown, error: unknown): object {
  const { '~refine': before = [] } = schema as { readonly '~refine'?: readonly unknown[] }
  return hide(copyOf(schema), '~refine', [...before, { check, error }])
}

/** Makes every field optional. It takes only objects that were made here without options. */
function partial({ properties }: Made): object {
  return object(
    Object.fromEntries(Object.entries(properties!).map(([name, each]) => [name, optional(each) as TSchema])),
  )
}

function cyclic(definitions: TProperties, $ref: string): object {
  const $defs = Object.entries(definitions).map(([$id, each]) => [$id, Object.assign(copyOf(each), { $id })])
  return make('Cyclic', { $defs: Object.fromEntries($defs) as object, $ref })
}

const MAKERS = {
  Array: (items: TSchema, options?: Options) => make('Array', { type: 'array', items }, options),
  Boolean: (options?: Options) => make('Boolean', { type: 'boolean' }, options),
  Cyclic: cyclic,
  Integer: (options?: Options) => make('Integer', { type: 'integer' }, options),
  Literal: (value: string | number | boolean, options?: Options) =>
    make('Literal', { type: typeof value, const: value }, options),
  Null: (options?: Options) => make('Null', { type: 'null' }, options),
  Number: (options?: Options) => make('Number', { type: 'number' }, options),
  Object: object,
  Optional: optional,
  Partial: partial,
  Record: (_: TSchema, value: TSchema, options?: Options) =>
    make('Record', { type: 'object', patternProperties: { [KEY_PATTERN]: value } }, options),
  Ref: ($ref: string, options?: Options) => make('Ref', { $ref }, options),
  Refine: refine,
  String: (options?: Options) => make('String', { type: 'string' }, options),
  Union: (anyOf: readonly TSchema[], options?: Options) => make('Union', { anyOf }, options),
  Unknown: (options?: Options) => make('Unknown', {}, options),
  Unsafe: (schema: object) => hide(copyOf(schema), '~unsafe', null),
}

export const Type = MAKERS as unknown as Pick<typeof TypeBox, keyof typeof MAKERS> // `test/schema.test.ts` compares them
