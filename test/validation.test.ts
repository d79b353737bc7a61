import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { Errors } from 'typebox/schema'
import { describeProblem, describeProblems } from '../src/validation.ts'

const schema = Type.Object(
  {
    properties: Type.Optional(Type.Integer()),
    labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    items: Type.Optional(
      Type.Array(Type.Union([Type.Object({ 'a/b~c': Type.Integer() }, { additionalProperties: false }), Type.Null()])),
    ),
  },
  { additionalProperties: false },
)

describe('a problem', () => {
  for (const [value, problem] of [
    [[], 'the body must be object'],
    [{ properties: 's3cret' }, 'properties must be integer'],
    [{ s3cret: 1 }, 'the body has an unknown field; known are properties, labels, items'],
    [{ labels: { s3cret: 1 } }, 'a field of labels must be string'],
    [{ items: [null, { 'a/b~c': 1, s3cret: 1 }] }, 'items.1 has an unknown field; known are a/b~c'],
    [{ items: [{ 'a/b~c': 's3cret' }] }, 'items.0.a/b~c must be integer'],
    [{ items: [{}] }, 'items.0.a/b~c is missing'],
    [{ items: ['s3cret'] }, 'items.0 must be object or null'],
  ] as const)
    it(`of ${JSON.stringify(value)} is told in names of the schema only`, () => {
      assert.equal(describeProblem(Errors(schema, value)[1], schema), problem)
    })

  it('of a record is told without the name of its field', () => {
    const record = Type.Record(Type.String(), Type.String())
    assert.equal(describeProblem(Errors(record, { s3cret: 1 })[1], record), 'a field must be string')
  })

  it('of a constant names the constants', () => {
    const word = Type.Union([Type.Literal('one'), Type.Literal(2), Type.Null()])
    const problemOf = (value: unknown) => describeProblem(Errors(word, value)[1], word)
    assert.equal(problemOf('s3cret'), 'the body must be "one" or 2 or null')
    assert.equal(problemOf(true), 'the body must be "one" or 2 or null')
    const only = Type.Object({ kind: Type.Literal('one') })
    assert.equal(describeProblem(Errors(only, { kind: 's3cret' })[1], only), 'kind must be "one"')
  })

  it('is told of a whole by its name', () => {
    const [, errors] = Errors(schema, { s3cret: 1 })
    assert.match(describeProblem(errors, schema, 'the file'), /^the file has an unknown field; known are properties, /)
    assert.equal(describeProblem([], schema), 'the body does not match its schema')
  })

  it('is told beside the others of the same value', () => {
    const problemsOf = (value: unknown) => describeProblems(Errors(schema, value)[1], schema, 'the file')
    assert.deepEqual(problemsOf({ properties: 's3cret', items: ['s3cret'], s3cret: 1 }), [
      'the file has an unknown field; known are properties, labels, items',
      'properties must be integer',
      'items.0 must be object or null',
    ])
    assert.deepEqual(problemsOf([]), ['the file must be object'])
    assert.deepEqual(describeProblems([], schema, 'the file'), ['the file does not match its schema'])
  })
})
