import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clusterMetricsText } from './support/cluster-metrics.ts'
import { Exposition } from './support/exposition.ts'

const LABELS = { cluster: 'shop', service: 'broker' }

describe('the metrics of a cluster', () => {
  const shown = new Exposition(clusterMetricsText())
  const value = (name: string, labels = {}): number | undefined =>
    shown.value(`trilog_cluster_${name}`, { ...LABELS, ...labels })

  it('say which role the node has, and what it knows of the others', () => {
    const roles = ['leader', 'follower', 'recovering'].map((role) => value('role', { role }))
    assert.deepEqual(roles, [0, 1, 0])
    assert.deepEqual([value('leader_known'), value('nodes'), value('epoch')], [1, 2, 3])
  })

  it('say how far it is, and how far behind', () => {
    assert.deepEqual([value('sequence'), value('position')], [7, 800])
    assert.deepEqual([value('behind_messages'), value('behind_bytes')], [1, 100])
    assert.equal(value('copied_bytes_total'), 12)
  })

  it('say what the stream acknowledged, and how', () => {
    assert.deepEqual([value('lease_seconds'), value('acknowledged_seconds_ago')], [1.5, 0.25])
    assert.deepEqual([value('in_flight_messages'), value('in_flight_bytes')], [2, 4096])
    assert.deepEqual([value('publish_duration_seconds_count'), value('publish_duration_seconds_sum')], [1, 0.003])
    const counts = ['lost_acknowledgements_total', 'refused_publishes_total', 'look_ups_total'].map((name) =>
      value(name),
    )
    assert.deepEqual(counts, [1, 1, 2])
    assert.equal(value('role_changes_total', { role: 'follower' }), 2)
  })

  it('show no age of what never was, and count from the beginning while the node opens', () => {
    const never = new Exposition(clusterMetricsText({ acknowledgedMsAgo: null }))
    assert.deepEqual(never.labelsOf('trilog_cluster_acknowledged_seconds_ago'), [])
    const opening = new Exposition(clusterMetricsText({ opens: true }))
    assert.equal(opening.value('trilog_cluster_look_ups_total', LABELS), 0)
    assert.deepEqual(opening.labelsOf('trilog_cluster_lease_seconds'), [])
  })
})
