import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OtherNodes } from '../../../src/cluster/lane/other-nodes.ts'
import type { NodeStatus } from '../../../src/cluster/lane/protocol.ts'

const status = (writer: string): NodeStatus => ({
  node: writer.split('/')[0]!,
  writer,
  role: 'follower',
  epoch: 1,
  sequence: 2,
  position: 3,
  url: null,
  peerUrl: 'http://127.0.0.1:1',
  hasRoom: true,
})

describe('what a node hears of the others', () => {
  const clock = { nowMs: 0 }
  const nodes = new OtherNodes({ writer: 'a/1', nowMs: () => clock.nowMs })
  const hear = (one: object): void => nodes.receive(JSON.stringify(one))

  it('is the newest of each, without itself, as long as it is new', () => {
    hear(status('a/1'))
    hear(status('b/1'))
    clock.nowMs = 30_000
    hear({ ...status('c/1'), sequence: 7 })
    hear({ ...status('c/2'), sequence: 8 })
    const both = [
      { ...status('b/1'), atMs: 0 },
      { ...status('c/2'), sequence: 8, atMs: 30_000 },
    ]
    assert.deepEqual(nodes.all, { others: both, twinAtMs: null })
    clock.nowMs = 60_001
    assert.deepEqual(nodes.all, { others: both.slice(1), twinAtMs: null })
  })

  it('tells of another process that has the same id, which is none of the others', () => {
    hear(status('a/2'))
    assert.equal(nodes.all.twinAtMs, clock.nowMs)
    assert.ok(nodes.all.others.every(({ node }) => node !== 'a'))
  })

  it('is that a node has room, unless it says that it has none: an older version says nothing of it', () => {
    hear({ ...status('e/1'), hasRoom: undefined })
    hear({ ...status('f/1'), hasRoom: false })
    const hasRoom = nodes.all.others.map((each) => [each.node, each.hasRoom])
    assert.deepEqual(hasRoom.slice(-2), [
      ['e', true],
      ['f', false],
    ])
  })

  it('is nothing that anybody else may write to the subject', () => {
    const { others } = nodes.all
    const { writer: _, ...withoutWriter } = status('d/1')
    for (const one of [withoutWriter, { ...status('d/1'), role: 'king' }, { ...status('d/1'), epoch: '1' }, [], null]) {
      nodes.receive(JSON.stringify(one))
    }
    nodes.receive('{')
    assert.deepEqual(nodes.all.others, others)
  })
})
