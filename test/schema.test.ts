/** Schemas are equal to those of TypeBox, including hidden members, as its checks and types depend on them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type as TypeBox } from 'typebox'
import { Check } from 'typebox/schema'
import { Type } from '../src/schema.ts'

/** Schemas by every function of `Type`. */
function schemasOf(type: typeof Type) {
  const isShort = (text: string): boolean => text.length < 3
  const told = (): string => 'must be short'
  const short = type.Refine(type.String({ description: 'short' }), isShort, told)
  const fields = {
    text: type.String(),
    count: type.Optional(type.Integer({ minimum: 0, description: 'how many' })),
    short: type.Optional(short),
    share: type.Number(),
    isOpen: type.Boolean(),
    nothing: type.Null(),
  }
  const named = type.Object(fields, { additionalProperties: false, description: 'an object' })
  return {
    named,
    empty: type.Object({}),
    allOptional: type.Object({ a: type.Optional(type.Null()) }),
    partial: type.Partial(type.Object(fields)),
    list: type.Array(type.String(), { minItems: 1, maxItems: 2 }),
    record: type.Record(type.String(), type.Unknown(), { maxProperties: 3 }),
    plainRecord: type.Record(type.String(), type.Union([type.String(), type.Number()])),
    refinedTwice: type.Refine(short, (text) => text !== 'no', told),
    literals: type.Union([type.Literal('a'), type.Literal(1), type.Literal(true, { description: 'yes' })], {
      title: 't',
    }),
    unsafe: type.Unsafe<string>(type.Refine(type.Unknown(), isShort as (value: unknown) => boolean, told)),
    optionalTwice: type.Optional(fields.count),
    tree: type.Cyclic({ Node: type.Object({ name: type.String(), children: type.Array(type.Ref('Node')) }) }, 'Node'),
  }
}

/** All members, also hidden ones, each with whether it is enumerable. Functions are shown by name. */
function described(value: unknown): unknown {
  if (typeof value === 'function') return value.name
  if (typeof value !== 'object' || value === null) return value
  const members = Reflect.ownKeys(value).filter((key) => !(Array.isArray(value) && key === 'length'))
  return members
    .map((key) => ({ key, ...Object.getOwnPropertyDescriptor(value, key)! }))
    .map(({ key, value: member, enumerable }) => [String(key), enumerable, described(member)])
    .toSorted(([a], [b]) => String(a).localeCompare(String(b)))
}

const ours = schemasOf(Type)
const theirs = schemasOf(TypeBox)

describe('schemas', () => {
  for (const name of Object.keys(ours) as (keyof typeof ours)[]) {
    it(`${name} is the one that TypeBox makes`, () => {
      assert.deepEqual(described(ours[name]), described(theirs[name]))
      assert.equal(JSON.stringify(ours[name]), JSON.stringify(theirs[name]))
    })
  }

  it('are checked by TypeBox, with what is hidden in them', () => {
    assert.ok(Check(ours.refinedTwice, 'ab'))
    assert.ok(!Check(ours.refinedTwice, 'abc'))
    assert.ok(!Check(ours.refinedTwice, 'no'))
    assert.ok(Check(ours.partial, {}))
    assert.ok(!Check(ours.allOptional, { a: 1 }))
    assert.ok(Check(ours.tree, { name: 'a', children: [{ name: 'b', children: [] }] }))
    assert.ok(!Check(ours.tree, { name: 'a', children: [{ name: 1, children: [] }] }))
  })

  it('that something is made of stay as they are', () => {
    const text = Type.String()
    const before = described(text)
    Type.Optional(text)
    Type.Refine(text, () => true)
    assert.deepEqual(described(text), before)
  })
})
