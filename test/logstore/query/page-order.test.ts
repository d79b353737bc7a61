import assert from 'node:assert/strict'
import { it } from 'node:test'
import { inOrderOfPage } from '../../../src/logstore/query/page-order.ts'

const SPANS = [
  { name: 'first stored', earliest: 50, latest: 60 },
  { name: 'of all times', earliest: 0, latest: 100 },
  { name: 'old records, stored late', earliest: 10, latest: 20 },
  { name: 'as the one before', earliest: 10, latest: 20 },
]

const namesOf = (descending: boolean): readonly string[] =>
  inOrderOfPage(SPANS, descending).map(([number, span]) => {
    assert.equal(SPANS[number], span)
    return span.name
  })

it('segments are walked from the one that has the first records of the page', () => {
  assert.deepEqual(namesOf(false), ['of all times', 'old records, stored late', 'as the one before', 'first stored'])
  assert.deepEqual(namesOf(true), ['of all times', 'first stored', 'as the one before', 'old records, stored late'])
})
