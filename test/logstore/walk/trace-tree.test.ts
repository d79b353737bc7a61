import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { TraceRecord } from '../../../src/logstore/walk/trace-record.ts'
import { treeText } from '../../../src/logstore/walk/trace-tree.ts'

interface Node {
  readonly span_id: string | null
  readonly root?: string
  readonly start_time_unix_nano: string
  readonly duration_nano: string
  readonly record: { readonly number: number }
  readonly logs: readonly { readonly record: { readonly number: number } }[]
  readonly children: readonly Node[]
}

interface Tree {
  readonly spans: number
  readonly log_records: number
  readonly truncated: boolean
  readonly matched_records: number
  readonly start_time_unix_nano: string
  readonly end_time_unix_nano: string
  readonly roots: readonly Node[]
  readonly logs: Node['logs']
}

/** @param number the record's place in time */
const recordOf = (number: number, spanId: string | null, parentSpanId: string | null, isLog = false): TraceRecord => ({
  json: `{"number":${number}}`,
  isLog,
  dataset: 'shop',
  spanId,
  parentSpanId,
  name: `n${number}`,
  startTime: BigInt(number),
  endTime: BigInt(number + 10),
})

function treeOf(records: readonly TraceRecord[], matched = records.length): Tree {
  const text = treeText({ tenant: 'acme', traceId: 'ab'.repeat(16), records, matched, quarantined: 0 })
  return JSON.parse(text) as Tree // the tests look at what it has
}

const numbersOf = (nodes: readonly Node[]): unknown[] =>
  nodes.map(({ record, children }) => (children.length === 0 ? record.number : [record.number, ...numbersOf(children)]))

describe('the tree of a trace', () => {
  it('has children under parents by start time, and says why a root is one', () => {
    const tree = treeOf([
      recordOf(0, 'a', null),
      recordOf(1, 'b', 'a'),
      recordOf(2, 'c', 'b'),
      recordOf(3, 'd', 'gone'),
      recordOf(4, 'e', 'a'),
      recordOf(5, null, 'd'),
    ])
    assert.deepEqual(numbersOf(tree.roots), [
      [0, [1, 2], 4],
      [3, 5],
    ])
    assert.deepEqual(
      tree.roots.map(({ root }) => root),
      ['no_parent', 'parent_missing'],
    )
    assert.deepEqual([tree.spans, tree.start_time_unix_nano, tree.end_time_unix_nano], [6, '0', '15'])
  })

  it('has log records under the span that they name, and the others beside', () => {
    const tree = treeOf([
      recordOf(0, 'a', null, true),
      recordOf(1, 'a', null),
      recordOf(2, null, null, true),
      recordOf(3, 'x', null, true),
      recordOf(4, 'a', null, true),
    ])
    const numbers = (logs: Node['logs']): number[] => logs.map(({ record }) => record.number)
    assert.deepEqual(numbers(tree.roots[0]!.logs), [0, 4])
    assert.deepEqual(numbers(tree.logs), [2, 3])
    assert.equal(tree.log_records, 4)
  })

  it('begins circles at their earliest span, and what is too deep anew', () => {
    const circle = treeOf([recordOf(0, 'a', 'c'), recordOf(1, 'b', 'a'), recordOf(2, 'c', 'b'), recordOf(3, 's', 's')])
    assert.deepEqual(numbersOf(circle.roots), [[0, [1, 2]], 3])
    assert.deepEqual(
      circle.roots.map(({ root }) => root),
      ['circle', 'circle'],
    )
    const chain = Array.from({ length: 1000 }, (_, i) => recordOf(i, `s${i}`, i === 0 ? null : `s${i - 1}`))
    const { roots } = treeOf(chain)
    assert.deepEqual(
      roots.map(({ root }) => root),
      ['no_parent', 'too_deep', 'too_deep', 'too_deep', 'too_deep'],
    )
    assert.equal(numbersOf(roots).flat(Infinity).length, 1000)
  })

  it('has what hangs on a circle under its parent, also when that starts later', () => {
    const tree = treeOf([
      recordOf(0, 'x', 'a'),
      recordOf(1, 'y', 'x'),
      recordOf(2, 'b', 'a'),
      recordOf(3, 'a', 'b'),
      recordOf(4, 'd', 'c'),
      recordOf(5, 'c', 'c'),
    ])
    assert.deepEqual(numbersOf(tree.roots), [
      [2, [3, [0, 1]]],
      [5, 4],
    ])
    assert.deepEqual(
      tree.roots.map(({ root }) => root),
      ['circle', 'circle'],
    )
  })

  it('says when it is cut', () => {
    assert.equal(treeOf([recordOf(0, 'a', null)]).truncated, false)
    const cut = treeOf([recordOf(0, 'a', null)], 5)
    assert.deepEqual([cut.truncated, cut.matched_records], [true, 5])
  })

  it('has every record once, whatever names what', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd', null)
    const record = fc.record({ spanId: id, parentSpanId: id, isLog: fc.boolean() })
    fc.assert(
      fc.property(fc.array(record, { minLength: 1, maxLength: 12 }), (given) => {
        const tree = treeOf(given.map(({ spanId, parentSpanId, isLog }, i) => recordOf(i, spanId, parentSpanId, isLog)))
        const seen: number[] = tree.logs.map(({ record }) => record.number)
        const visit = ({ record, logs, children }: Node): void => {
          seen.push(record.number, ...logs.map(({ record }) => record.number))
          const times = children.map((child) => Number(child.start_time_unix_nano))
          assert.deepEqual(
            times,
            times.toSorted((a, b) => a - b),
          )
          for (const child of children) {
            assert.equal(child.root, undefined)
            visit(child)
          }
        }
        for (const root of tree.roots) {
          assert.notEqual(root.root, undefined)
          visit(root)
        }
        assert.deepEqual(
          seen.toSorted((a, b) => a - b),
          given.map((_, i) => i),
        )
      }),
    )
  })
})
