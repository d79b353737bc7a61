import assert from 'node:assert/strict'
import { test } from 'node:test'
import { STREAM_BEGIN } from '../../src/cluster/history.ts'
import type { Anchor } from '../../src/cluster/history.ts'
import { LOG_BEGIN } from '../../src/cluster/message.ts'
import type { LogPlace } from '../../src/cluster/message.ts'
import { ClusterNode } from '../../src/cluster/node.ts'
import type { ClusterAction } from '../../src/cluster/node.ts'
import { message } from '../support/cluster-messages.ts'
import type { Message } from '../support/cluster-messages.ts'

const TIMES = { leaseMs: 2000, followMs: 3000, spreadMs: 0, beatMs: 500, ackMs: 400, lookMs: 300, pauseMs: 10 }
const END: LogPlace = { position: 8, chain: 99 }

const frames = (epoch: number, writer: string, ordinal: number): Message =>
  message(epoch, writer, ordinal, { kind: 'frames', end: END, body: 'x' })

function begin(anchor: Anchor = STREAM_BEGIN) {
  const acts: ClusterAction<string>[] = []
  const node = new ClusterNode<string>({
    writer: 'a/1',
    times: TIMES,
    anchor,
    nowMs: 0,
    random: () => 0,
    act: (action) => acts.push(action),
  })
  const kinds = (): string[] =>
    acts.splice(0).map((act) => (act.kind === 'publish' ? `publish ${act.message.kind}` : act.kind))
  /** Number of the last action, if that is an attempt or a look-up; else -1. */
  const asked = (): number => {
    const last = acts.at(-1)
    return last?.kind === 'publish' ? last.attempt : last?.kind === 'look up' ? last.look : -1
  }
  return { node, acts, kinds, asked }
}

/** A node that leads since 3010, by the epoch message that it sent at 3000. */
function beginLeading() {
  const begun = begin()
  begun.node.tick(3000)
  begun.node.acknowledged(begun.asked(), 1, 3010)
  assert.deepEqual(begun.kinds(), ['publish epoch', 'lead'])
  return begun
}

test('a node stands when it has heard of no leader for long enough, and leads when its epoch message is confirmed', () => {
  const { node, acts, kinds, asked } = begin()
  node.tick(2999)
  assert.equal(node.role, 'following')
  node.tick(3000)
  assert.deepEqual([node.role, node.mayAnswer(3000)], ['standing', false])
  assert.deepEqual(acts[0], {
    kind: 'publish',
    attempt: 1,
    expectedLast: 0,
    message: message(1, 'a/1', 0, { kind: 'epoch' }),
  })
  node.acknowledged(asked(), 1, 3010)
  assert.deepEqual(kinds(), ['publish epoch', 'lead'])
  assert.deepEqual([node.role, node.epoch, node.leader], ['leading', 1, 'a/1'])
})

test('the lease counts from when a message was sent', () => {
  const { node, asked } = beginLeading()
  assert.ok(node.mayAnswer(4999))
  assert.ok(!node.mayAnswer(5000))
  node.tick(3500)
  assert.ok(asked() > 0) // it sent a beat
  node.acknowledged(asked(), 2, 4000)
  assert.ok(node.mayAnswer(5499))
  assert.ok(!node.mayAnswer(5500))
})

test('a leader without acknowledgements steps down to what is confirmed, and follows from there', () => {
  const { node, acts } = beginLeading()
  node.offer({ begin: LOG_BEGIN, end: END, part: null, body: 'x', bytes: 1 }, 3100)
  node.tick(5010)
  assert.equal(node.role, 'following')
  assert.deepEqual(acts.slice(-2), [
    { kind: 'step down', end: LOG_BEGIN, reason: 'the lease expired: the stream has confirmed nothing in that time' },
    { kind: 'follow', from: 2 },
  ])
  node.delivered(2, frames(1, 'a/1', 1), 5020) // the message was stored after all
  assert.deepEqual(acts.at(-1), { kind: 'apply', bodies: ['x'], begin: LOG_BEGIN, end: END })
})

test('a leader that finds a higher epoch in its place steps down', () => {
  const { node, kinds, asked } = beginLeading()
  node.offer({ begin: LOG_BEGIN, end: END, part: null, body: 'x', bytes: 1 }, 3100)
  node.refused(asked(), 3110)
  node.lookedUp(asked(), message(2, 'b/1', 0, { kind: 'epoch' }), 3120)
  assert.deepEqual(kinds(), ['publish frames', 'look up', 'step down', 'follow'])
  assert.deepEqual([node.role, node.epoch, node.leader], ['following', 2, 'b/1'])
  assert.ok(!node.mayAnswer(3120))
})

test('a leader is not led astray by what an earlier one left behind', () => {
  const { node, kinds, asked } = beginLeading()
  node.offer({ begin: LOG_BEGIN, end: END, part: null, body: 'x', bytes: 1 }, 3100)
  node.refused(asked(), 3110)
  node.lookedUp(asked(), frames(0, 'b/1', 7), 3120)
  node.lookedUp(asked(), null, 3130)
  assert.deepEqual(kinds(), ['publish frames', 'look up', 'look up', 'publish frames'])
  node.acknowledged(5, 3, 3140)
  assert.deepEqual(kinds(), ['confirmed'])
  assert.deepEqual(node.confirmed, END)
})

test('frames are applied by those who follow, and put off when they stand', () => {
  const { node, kinds } = begin()
  node.delivered(1, message(1, 'b/1', 0, { kind: 'epoch' }), 2000)
  node.delivered(2, frames(1, 'b/1', 1), 2500)
  assert.deepEqual(kinds(), ['apply'])
  assert.equal(node.dueMs, 5500)
  node.delivered(3, message(1, 'c/1', 1, {}), 5000) // void: no sign of life of the leader
  assert.equal(node.dueMs, 5500)
  node.delivered(5, message(1, 'b/1', 2, { begin: END, end: END }), 5100)
  assert.deepEqual(kinds(), ['follow'])
})

test('who stands gives way to what comes before it', () => {
  const { node, kinds, asked } = begin()
  node.tick(3000)
  node.delivered(1, message(1, 'b/1', 0, { kind: 'epoch' }), 3001)
  assert.deepEqual([node.role, node.leader, node.dueMs], ['following', 'b/1', 6001])
  node.acknowledged(asked(), 1, 3002) // of an attempt that is over
  assert.deepEqual([node.role, kinds()], ['following', ['publish epoch']])
})

test('who stands and finds another in its place follows again', () => {
  const { node, kinds, asked } = begin()
  node.tick(3000)
  node.refused(asked(), 3001)
  node.lookedUp(asked(), message(1, 'b/1', 0, { kind: 'epoch' }), 3002)
  assert.deepEqual(kinds(), ['publish epoch', 'look up', 'follow'])
  assert.equal(node.role, 'following')
})

test('a leader hands over when all is confirmed, and answers nothing from before it says so', () => {
  const { node, acts, kinds, asked } = beginLeading()
  node.offer({ begin: LOG_BEGIN, end: END, part: null, body: 'x', bytes: 1 }, 3100)
  node.handOver('b', 3110)
  assert.deepEqual([node.takesFrames, node.mayAnswer(3110)], [false, true])
  node.acknowledged(2, 2, 3120)
  assert.ok(!node.mayAnswer(3120))
  assert.equal(node.leaseUntilMs, -Infinity)
  const resign = acts.at(-1)
  assert.ok(resign?.kind === 'publish' && resign.message.successor === 'b')
  assert.deepEqual(kinds(), ['publish frames', 'confirmed', 'publish resign'])
  node.acknowledged(asked() === -1 ? 3 : asked(), 3, 3130)
  assert.deepEqual(kinds(), ['step down', 'follow'])
  assert.equal(node.dueMs, 6130)
})

test('the successor of who resigned stands at once, others when they have waited', () => {
  for (const [successor, dueMs] of [
    ['a', 100],
    [null, 100],
    ['c', 3100],
  ] as const) {
    const { node } = begin()
    node.delivered(1, message(1, 'b/1', 0, { kind: 'epoch' }), 50)
    node.delivered(2, message(1, 'b/1', 1, { kind: 'resign', successor }), 100)
    assert.equal(node.dueMs, dueMs, String(successor))
  }
})

test('a node that was away for too long copies, and does not stand meanwhile', () => {
  const { node, kinds } = begin()
  node.trimmed(100)
  assert.deepEqual([node.role, node.dueMs, kinds()], ['catching up', Infinity, ['catch up']])
  node.delivered(1, message(1, 'b/1', 0, { kind: 'epoch' }), 200)
  node.caughtUp({ sequence: 40, epoch: 3, writer: 'b/1', ordinal: 12, end: END, resigned: null }, 300)
  assert.deepEqual([node.role, node.epoch, node.confirmed, node.dueMs], ['following', 3, END, 3300])
  assert.deepEqual(kinds(), ['follow'])
})

test('a history that does not fit stops the node', () => {
  const { node, acts } = begin()
  node.delivered(1, message(1, 'b/1', 0, { kind: 'epoch', begin: END, end: END }), 10)
  assert.equal(node.role, 'stopped')
  assert.equal(acts.at(-1)?.kind, 'stop')
  assert.equal(node.dueMs, Infinity)
})

test('a leader whose disk fails steps down', () => {
  const { node, kinds } = beginLeading()
  node.stepDown('the disk failed', 3200)
  assert.deepEqual(kinds(), ['step down', 'follow'])
  assert.ok(!node.mayAnswer(3200))
})
