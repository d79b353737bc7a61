import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { schemaCheck } from '../src/schema-check.ts'
import { Type } from '../src/schema.ts'

const check = schemaCheck(
  Type.Object(
    {
      items: Type.Array(Type.Object({ name: Type.String() }), { maxItems: 3 }),
      labels: Type.Optional(Type.Record(Type.String(), Type.String(), { maxProperties: 2 })),
    },
    { additionalProperties: false },
  ),
)

describe('what is wrong with a value', () => {
  it('is found without a look at all of a list that is too long', () => {
    let looks = 0
    const item = {
      get name() {
        looks += 1
        return 'a'
      },
    }
    const value = { items: Array.from({ length: 100_000 }, () => item) }
    assert.ok(!check.accepts(value))
    looks = 0
    const [error] = check.errors(value)
    assert.deepEqual([error!.instancePath, error!.message], ['/items', 'must not have more than 3 items'])
    assert.ok(looks < 100)
  })

  it('is found likewise in an object of too many fields, and of fields that nobody knows', () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`field ${n}`, 'a']))
    assert.deepEqual(
      check.errors({ items: [], labels: many }).map(({ message }) => message),
      ['must not have more than 2 properties'],
    )
    assert.equal(check.errors({ items: [], ...many })[0]!.instancePath, '/field 0')
  })

  it('is something for each value that is not accepted, and nothing for others', () => {
    const item = fc.oneof(fc.record({ name: fc.string() }), fc.jsonValue())
    const value = fc.oneof(
      fc.record(
        { items: fc.array(item, { maxLength: 6 }), labels: fc.dictionary(fc.string(), fc.string()), other: fc.nat() },
        { requiredKeys: [] },
      ),
      fc.jsonValue(),
    )
    fc.assert(fc.property(value, (given) => check.accepts(given) === (check.errors(given).length === 0)))
  })
})
