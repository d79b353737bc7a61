import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { HeardStatus } from '../../../src/cluster/lane/protocol.ts'
import { KnownNodes } from '../../../src/cluster/member/known-nodes.ts'

const heard = (node: string, role: HeardStatus['role'], changed: Partial<HeardStatus> = {}): HeardStatus => ({
  node,
  writer: `${node}/1`,
  role,
  epoch: 3,
  sequence: 1,
  position: 1,
  url: `http://${node}:9000`,
  peerUrl: `http://${node}:7490`,
  hasRoom: true,
  atMs: 0,
  ...changed,
})

/** What node `a` knows, at a time that the test moves. */
function rig() {
  const clock = { nowMs: 0 }
  const nodes = new KnownNodes({ cluster: 'test', node: 'a', nowMs: () => clock.nowMs })
  return { clock, nodes }
}

describe('what a node knows of the nodes of its cluster', () => {
  it('is nothing before the lane has said anything', () => {
    const { nodes } = rig()
    assert.deepEqual(nodes.viewAs('recovering'), { name: 'test', node: 'a', leads: false, nodes: [] })
    assert.deepEqual(
      [nodes.leaderAs('follower'), nodes.leaderAs('leader'), nodes.peers, nodes.hasTwin],
      [null, null, [], false],
    )
  })

  it('has this node in the role that main knows, and how long ago the others were heard', () => {
    const { clock, nodes } = rig()
    const { atMs: _, ...own } = heard('a', 'leader')
    nodes.update({ own, others: [heard('b', 'follower')], twinAtMs: null })
    clock.nowMs = 700
    const { leads, nodes: shown } = nodes.viewAs('follower')
    assert.equal(leads, false)
    assert.deepEqual(
      shown.map(({ node, role, heardMsAgo }) => [node, role, heardMsAgo]),
      [
        ['b', 'follower', 700],
        ['a', 'follower', 0],
      ],
    )
    assert.equal(nodes.viewAs('leader').leads, true)
    assert.equal(nodes.leaderAs('leader')?.node, 'a')
  })

  it('has for the leader the one of the highest epoch that was heard in time', () => {
    const { clock, nodes } = rig()
    const others = [
      heard('b', 'leader', { epoch: 4, atMs: 4000 }),
      heard('c', 'leader', { epoch: 5 }),
      heard('d', 'leader', { epoch: 3, atMs: 5000 }),
    ]
    nodes.update({ own: null, others, twinAtMs: 0 })
    clock.nowMs = 5000
    assert.deepEqual([nodes.leaderAs('follower')?.node, nodes.hasTwin], ['c', true])
    clock.nowMs = 5001
    assert.deepEqual([nodes.leaderAs('follower')?.node, nodes.hasTwin], ['b', false])
  })

  it('has where logs are given, the leader first, and nobody that recovers or says no address', () => {
    const { nodes } = rig()
    const others = [
      heard('b', 'follower'),
      heard('c', 'recovering'),
      heard('d', 'leader'),
      heard('e', 'follower', { peerUrl: null }),
    ]
    nodes.update({ own: null, others, twinAtMs: null })
    assert.deepEqual(nodes.peers, ['http://d:7490', 'http://b:7490'])
  })
})
