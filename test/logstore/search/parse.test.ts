import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { SearchError } from '../../../src/logstore/search/expression.ts'
import type { Search } from '../../../src/logstore/search/expression.ts'
import { searchOfObject } from '../../../src/logstore/search/object.ts'
import { parseSearch } from '../../../src/logstore/search/parse.ts'
import { codePoint } from '../../support/code-point.ts'

const words = (...words: string[]): Search => ({ kind: 'text', words, prefix: false })
const begins = (...words: string[]): Search => ({ kind: 'text', words, prefix: true })
const equals = (name: string, text: string, number: number | bigint | null = null): Search => ({
  kind: 'name',
  name,
  value: { kind: 'equals', text, number },
})
const and = (...of: Search[]): Search => ({ kind: 'and', of })
const or = (...of: Search[]): Search => ({ kind: 'or', of })
const not = (of: Search): Search => ({ kind: 'not', of })
const compare = (name: string, by: '<' | '<=' | '>' | '>=', number: number | bigint): Search => ({
  kind: 'name',
  name,
  value: { kind: 'compare', by, number },
})

describe('a search text', () => {
  const read: readonly [text: string, search: Search][] = [
    ['', { kind: 'all' }],
    ['  * ', { kind: 'all' }],
    ['Timeout', words('timeout')],
    ['connection refused', and(words('connection'), words('refused'))],
    ['"connection refused"', words('connection', 'refused')],
    ['order-42.failed', words('order', '42', 'failed')],
    ['time*', begins('time')],
    ['user_id', words('user_id')],
    ['a OR b c', or(words('a'), and(words('b'), words('c')))],
    ['a AND b', and(words('a'), words('b'))],
    ['(a OR b) c', and(or(words('a'), words('b')), words('c'))],
    ['-a', not(words('a'))],
    ['--a', words('a')],
    ['NOT "a b"', not(words('a', 'b'))],
    ['-(a b)', not(and(words('a'), words('b')))],
    ['or and not', and(words('or'), words('and'), words('not'))],
    ['ORDER NOTE', and(words('order'), words('note'))],
    ['http.method:GET', equals('http.method', 'get')],
    ['http.status_code:500', equals('http.status_code', '500', 500)],
    ['id:9007199254740993', equals('id', '9007199254740993', 9_007_199_254_740_993n)],
    ['user:"two words"', equals('user', 'two words')],
    ['"odd key":x', equals('odd key', 'x')],
    ['url:http://x/y', equals('url', 'http://x/y')],
    ['http://x', words('http', 'x')],
    ['12:30', words('12', '30')],
    ['path:/api*', { kind: 'name', name: 'path', value: { kind: 'begins', text: '/api' } }],
    ['user.id:*', { kind: 'name', name: 'user.id', value: { kind: 'exists' } }],
    ['latency:>100', compare('latency', '>', 100)],
    ['latency:<=1.5e3', compare('latency', '<=', 1500)],
    ['duration:>=1.5ms', compare('duration', '>=', 1_500_000)],
    ['severity:>=warn', { kind: 'severity', min: 13, max: 2 ** 31 - 1 }],
    ['severity:ERROR', { kind: 'severity', min: 17, max: 20 }],
    ['severity:error2', { kind: 'severity', min: 18, max: 18 }],
    ['severity:<info', { kind: 'severity', min: 1, max: 8 }],
    ['severity:9', { kind: 'severity', min: 9, max: 9 }],
    ['signal:trace', { kind: 'signal', signal: 'trace' }],
    ['kind:server', equals('kind', 'server', 2)],
    ['status:error', equals('status.code', 'error', 2)],
    ['"say \\"yes\\""', words('say', 'yes')],
    ['日志', words('日', '志')],
  ]
  for (const [text, search] of read) {
    it(`reads ${text || 'nothing'}`, () => assert.deepEqual(parseSearch(text), search))
  }

  const refused: readonly [text: string, column: number | null, says: RegExp][] = [
    ['a (b', 3, /not closed/],
    ['a)', 2, /without its \(/],
    ['say "x', 5, /quote/],
    ['a OR', 5, /expected/],
    ['OR a', 1, /expected/],
    ['()', 2, /expected/],
    ['a -', 3, /no word/],
    ['a ***', 3, /\*/],
    ['wo*rd', 3, /\* stands only at the end/],
    ['key:', 5, /value is expected/],
    ['latency:>fast', 9, /number/],
    ['severity:loud', 1, /severity/],
    ['severity:>loud', 10, /severity/],
    ['signal:metric', 1, /log or trace/],
    ['...', 1, /no word/],
    [`${'('.repeat(40)}a${')'.repeat(40)}`, 33, /nested/],
    ['a '.repeat(129), 257, /128 conditions/],
    ['x'.repeat(10_241), null, /10240/],
  ]
  for (const [text, column, says] of refused) {
    it(`refuses ${text.slice(0, 20)} with the column`, () =>
      assert.throws(
        () => parseSearch(text),
        (error) =>
          error instanceof SearchError &&
          says.test(error.message) &&
          (column === null || error.message.endsWith(`(column ${column})`)),
      ))
  }

  it('is read or refused whatever it is, in every script', () => {
    const unit = fc.constantFrom(
      '(',
      ')',
      '"',
      '-',
      ':',
      '*',
      ' ',
      '\\',
      '>',
      '\0',
      'OR ',
      'a',
      'severity:',
      '\ud800',
      'ش',
      '字',
    )
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: codePoint }), fc.string({ unit, maxLength: 200 })), (text) => {
        try {
          parseSearch(text)
        } catch (error) {
          assert(error instanceof SearchError, String(error))
        }
      }),
      { numRuns: 2000 },
    )
  })

  it('reads back what was written of a tree', () => {
    const word = fc.constantFrom('alpha', 'beta', '42', 'größe')
    const condition: fc.Arbitrary<Search> = fc.oneof(
      fc.tuple(fc.array(word, { minLength: 1, maxLength: 3 }), fc.boolean()).map(([words, prefix]): Search => ({
        kind: 'text',
        words,
        prefix: prefix && words.length === 1,
      })),
      word.map((text) => equals('user.name', `${text} "x\\`)),
      fc.integer().map((number) => compare('latency', '<', number)),
    )
    const trees = fc.letrec<{ tree: Search }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        condition,
        fc.array(tie('tree'), { minLength: 2, maxLength: 3 }).map((of) => or(...of)),
        fc.array(tie('tree'), { minLength: 2, maxLength: 3 }).map((of) => and(...of)),
        tie('tree').map(not),
      ),
    })).tree
    fc.assert(
      fc.property(trees, (tree) => {
        assert.deepEqual(parseSearch(written(tree)), flat(tree))
      }),
    )
  })
})

/** The same search, without two negations in a row. */
function flat(search: Search): Search {
  if (search.kind === 'and' || search.kind === 'or') return { kind: search.kind, of: search.of.map(flat) }
  if (search.kind !== 'not') return search
  return search.of.kind === 'not' ? flat(search.of.of) : not(flat(search.of))
}

function written(search: Search): string {
  switch (search.kind) {
    case 'or':
      return `(${search.of.map(written).join(' OR ')})`
    case 'and':
      return `(${search.of.map(written).join(' ')})`
    case 'not':
      return `-${written(search.of)}`
    case 'text':
      return search.prefix ? `${search.words[0]}*` : `"${search.words.join(' ')}"`
    case 'name':
      if (search.value.kind === 'equals') return `${search.name}:${JSON.stringify(search.value.text)}`
      if (search.value.kind === 'compare') return `${search.name}:${search.value.by}${search.value.number}`
  }
  throw new Error(`not written here: ${search.kind}`)
}

describe('a search object', () => {
  it('says what its members say together', () => {
    const search = searchOfObject({
      text: 'timeout',
      attributes: { 'http.status_code': 500 },
      severity_number_min: 13,
      signal: 'trace',
      span_name: 'GET /orders',
      min_duration_nano: '9007199254740993',
      status_code: 'error',
    })
    assert.deepEqual(
      search,
      and(
        words('timeout'),
        or(
          equals('attributes.http.status_code', '500', 500),
          equals('scope.attributes.http.status_code', '500', 500),
          equals('resource.attributes.http.status_code', '500', 500),
        ),
        { kind: 'severity', min: 13, max: Infinity },
        { kind: 'signal', signal: 'trace' },
        equals('name', 'get /orders'),
        compare('duration', '>=', 9_007_199_254_740_993n),
        equals('status.code', 'error', 2),
      ),
    )
    assert.deepEqual(searchOfObject({}), { kind: 'all' })
  })
})
