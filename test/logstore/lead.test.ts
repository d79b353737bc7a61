import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ClusterView } from '../../src/http/cluster.ts'
import { Lead } from '../../src/logstore/lead.ts'

const URL_OF_B = 'http://b:9000'

const nodeOf = (node: string, role: 'leader' | 'follower'): ClusterView['nodes'][number] => ({
  node,
  role,
  epoch: 3,
  sequence: 1,
  position: 1,
  url: `http://${node}:9000`,
  heardMsAgo: 0,
})

/** Node a, whose term and view the test sets. */
class Rig {
  term: number | null = 3
  leads = true
  nodes: ClusterView['nodes'] = [nodeOf('a', 'leader')]
  readonly lead: Lead

  constructor() {
    const termOf = (): number | null => this.term
    const cluster = {
      get term() {
        return termOf()
      },
    }
    this.lead = new Lead({ cluster } as ConstructorParameters<typeof Lead>[0], () => ({
      name: 'test',
      node: 'a',
      leads: this.leads,
      nodes: this.nodes,
    }))
  }

  loses(): void {
    this.term = null
    this.leads = false
    this.nodes = [nodeOf('a', 'follower'), nodeOf('b', 'leader')]
  }
}

describe('the lead of a log store', () => {
  it('is always had where there is no cluster', () => {
    const lead = new Lead({ cluster: null }, null)
    assert.deepEqual([lead.term, lead.refused, lead.refusedAfter(lead.term), lead.headers], [0, null, null, []])
  })

  it('lets requests come while the node leads and its lease holds', () => {
    const rig = new Rig()
    assert.deepEqual([rig.lead.term, rig.lead.refused], [3, null])
    rig.leads = false
    assert.equal(rig.lead.refused?.kind, 'not_leading')
    rig.leads = true
    rig.term = null
    assert.equal(rig.lead.refused?.kind, 'not_leading')
  })

  it('has what was read told in the term in which it was read, and in no other', () => {
    const rig = new Rig()
    const { term } = rig.lead
    assert.equal(rig.lead.refusedAfter(term), null)
    rig.term = null
    assert.equal(rig.lead.refusedAfter(term)?.kind, 'not_leading')
    rig.term = 5 // another node may have led in between
    assert.equal(rig.lead.refusedAfter(term)?.kind, 'not_leading')
    assert.equal(rig.lead.refusedAfter(5), null)
    assert.equal(rig.lead.refusedAfter(null)?.kind, 'not_leading')
  })

  it('says where the leader is, when one is known', () => {
    const rig = new Rig()
    rig.loses()
    assert.match(rig.lead.refused!.message, /the one at http:\/\/b:9000 does$/)
    assert.match(rig.lead.refusedAfter(3)!.message, /the one at http:\/\/b:9000 does$/)
    assert.deepEqual(rig.lead.headers, [['x-trilog-leader', URL_OF_B]])
    rig.nodes = [nodeOf('a', 'follower')]
    assert.match(rig.lead.refused!.message, /no leader is known$/)
    assert.deepEqual(rig.lead.headers, [])
  })
})
