/** The bounds in docs/what-is-there.md, compared with those of the code. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import {
  BUCKETS_DEFAULT,
  BUCKETS_MAX,
  DATASETS_LIMIT_MAX,
  KEYS_MAX,
  SAMPLE_DEFAULT,
  SAMPLE_MAX,
  TOP_DEFAULT,
  TOP_MAX,
  VALUES_DEFAULT,
  VALUES_MAX,
} from '../../src/logstore/survey/question.ts'
import { DATASETS_PARAMETERS, FieldsRequestBody, HistogramRequestBody } from '../../src/logstore/survey/request.ts'
import { parseQueryRequest } from '../../src/logstore/query/request.ts'
import { blocksOf, document, tableOf } from './markdown.ts'

const page = document('docs/what-is-there.md')

it('the tables have every parameter and member, with the bounds of the code', () => {
  const rowsOf = (heading: string): Map<string, string> =>
    new Map(
      tableOf(page, heading).flatMap(([names, text]) =>
        Array.from(names!.matchAll(/`(\w+)`/g), ([, name]): [string, string] => [
          name!,
          text!.replaceAll(' 000', '000'),
        ]),
      ),
    )
  const datasets = rowsOf('Which datasets there are')
  assert.deepEqual(
    [...datasets.keys()],
    DATASETS_PARAMETERS.map(({ name }) => name),
  )
  assert.match(datasets.get('limit')!, new RegExp(`1 to ${DATASETS_LIMIT_MAX};`))
  const fields = rowsOf('What the records have')
  assert.deepEqual([...fields.keys()].sort(), Object.keys(FieldsRequestBody.properties).sort())
  assert.match(fields.get('sample_records')!, new RegExp(`1 to ${SAMPLE_MAX}; ${SAMPLE_DEFAULT} by default`))
  assert.match(fields.get('values')!, new RegExp(`0 to ${VALUES_MAX}; ${VALUES_DEFAULT} by default`))
  assert.match(page, new RegExp(`at most ${KEYS_MAX} fields`))
  const histogram = rowsOf('How many, and when')
  assert.deepEqual([...histogram.keys()].sort(), Object.keys(HistogramRequestBody.properties).sort())
  assert.match(histogram.get('interval_nano')!, new RegExp(`at most ${BUCKETS_MAX} buckets`))
  assert.match(histogram.get('buckets')!, new RegExp(`1 to ${BUCKETS_MAX}; ${BUCKETS_DEFAULT} by default`))
  assert.match(histogram.get('top')!, new RegExp(`1 to ${TOP_MAX}; ${TOP_DEFAULT} by default`))
})

it('the query that docs/search.md shows is one', () => {
  const [example] = blocksOf(document('docs/search.md'), 'search')
  const parsed = parseQueryRequest(Buffer.from(example!.text))
  assert.ok('filter' in parsed && parsed.filter.search !== null && parsed.order === 'desc')
})
