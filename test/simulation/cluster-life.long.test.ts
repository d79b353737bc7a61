import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClusterNode } from '../../src/cluster/node.ts'
import { modelRuns, seedOf } from '../support/seed.ts'
import { LawBroken, TIMES, liveCluster } from './cluster-life.ts'
import type { LifeOptions } from './cluster-life.ts'

test('whatever is lost, late, cut, stopped or killed: acknowledged is there once, in one history, and only one node answers', (context) => {
  const first = seedOf(context)
  const counts = new Map<string, number>()
  let acknowledged = 0
  for (let seed = first; seed < first + modelRuns(40); seed += 1) {
    const report = liveCluster({ seed })
    acknowledged += report.acknowledged
    for (const [what, times] of report.counts) counts.set(what, (counts.get(what) ?? 0) + times)
  }
  assert.ok(acknowledged > 10_000)
  for (const what of [
    'crash',
    'stop',
    'cut',
    'elect',
    'hand over',
    'led',
    'stepped down',
    'looked up',
    'parts',
    'tail cut',
    'gathered',
  ])
    assert.ok((counts.get(what) ?? 0) > 0, `no life had: ${what}`)
})

test('a seed says everything', () => {
  assert.deepEqual(liveCluster({ seed: 7 }), liveCluster({ seed: 7 }))
})

test('followers that wait less than the lease are found out', () => {
  assert.match(firstBroken({ times: { ...TIMES, followMs: 700, spreadMs: 100 } }), /W3|W4/)
})

test('a leader that answers without a lease is found out', (context) => {
  context.mock.method(ClusterNode.prototype, 'mayAnswer', function (this: ClusterNode<unknown>) {
    return this.role === 'leading'
  })
  assert.match(firstBroken({}), /W3|W4/)
})

/** The message of the first life that breaks a law. */
function firstBroken(options: Omit<LifeOptions, 'seed'>): string {
  for (let seed = 1; seed <= 300; seed += 1) {
    try {
      liveCluster({ seed, ...options })
    } catch (error) {
      if (error instanceof LawBroken) return error.message
      throw error
    }
  }
  return 'no law was broken'
}
