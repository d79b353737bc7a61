import assert from 'node:assert/strict'
import { test } from 'node:test'
import { STREAM_BEGIN, StreamHistory } from '../../src/cluster/history.ts'
import { LOG_BEGIN } from '../../src/cluster/message.ts'
import type { LogPlace } from '../../src/cluster/message.ts'
import { message } from '../support/cluster-messages.ts'
import type { Message } from '../support/cluster-messages.ts'

const at = (position: number): LogPlace => ({ position, chain: position + 1 })
const epoch = (number: number, writer: string, begin = LOG_BEGIN): Message =>
  message(number, writer, 0, { kind: 'epoch', begin, end: begin })

function taken(...messages: readonly Message[]): { history: StreamHistory<string>; kinds: string[] } {
  const history = new StreamHistory<string>(STREAM_BEGIN)
  return { history, kinds: messages.map((each, i) => history.apply(i + 1, each).kind) }
}

test('the frames of the leader move the end of the log', () => {
  const { history, kinds } = taken(
    epoch(1, 'a/1'),
    message(1, 'a/1', 1, { kind: 'frames', end: at(8), body: 'x' }),
    message(1, 'a/1', 2, { begin: at(8), end: at(8) }),
  )
  assert.deepEqual(kinds, ['epoch', 'frames', 'beat'])
  assert.deepEqual(history.end, at(8))
  assert.deepEqual([history.epoch, history.writer, history.sequence], [1, 'a/1', 3])
})

test('what another leader had on its way when an epoch began is void, and so is what does not follow', () => {
  const { history, kinds } = taken(
    epoch(1, 'a/1'),
    epoch(2, 'b/1'),
    message(1, 'a/1', 1, { kind: 'frames', end: at(8), body: 'late' }), // it expected the sequence that the epoch message has taken
    message(2, 'b/1', 2, { kind: 'frames', begin: at(16), end: at(24), body: 'the first is missing' }),
    message(2, 'b/1', 1, { kind: 'frames', end: at(16), body: 'y' }),
    message(2, 'b/1', 2, { kind: 'frames', begin: at(16), end: at(24), body: 'z' }),
    epoch(2, 'c/1', at(24)),
    epoch(1, 'c/1', at(24)),
  )
  assert.deepEqual(kinds, ['epoch', 'epoch', 'void', 'void', 'frames', 'frames', 'void', 'void'])
  assert.deepEqual(history.end, at(24))
})

test('parts count when the last one is there, and an anchor is never between them', () => {
  const part = (ordinal: number, index: number): Message =>
    message(1, 'a/1', ordinal, { kind: 'part', end: at(8), part: { index, count: 2 }, body: `part ${index}` })
  const { history, kinds } = taken(epoch(1, 'a/1'), part(1, 0), message(1, 'a/1', 2, {}))
  assert.deepEqual(kinds, ['epoch', 'held', 'beat'])
  assert.equal(history.anchor.sequence, 1)
  assert.deepEqual(history.apply(4, part(3, 1)), {
    kind: 'frames',
    bodies: ['part 0', 'part 1'],
    begin: LOG_BEGIN,
    end: at(8),
  })
  assert.equal(history.anchor.sequence, 4)
})

test('a new epoch makes parts void that are not complete', () => {
  const { history, kinds } = taken(
    epoch(1, 'a/1'),
    message(1, 'a/1', 1, { kind: 'part', end: at(8), part: { index: 0, count: 2 }, body: 'half' }),
    epoch(2, 'b/1'),
    message(2, 'b/1', 1, { kind: 'frames', end: at(8), body: 'whole' }),
  )
  assert.deepEqual(kinds, ['epoch', 'held', 'epoch', 'frames'])
  assert.equal(history.anchor.sequence, 4)
})

test('nothing of a leader counts after it resigned', () => {
  const { history, kinds } = taken(
    epoch(1, 'a/1'),
    message(1, 'a/1', 1, { kind: 'resign', successor: 'b' }),
    message(1, 'a/1', 2, { kind: 'frames', end: at(8), body: 'x' }),
  )
  assert.deepEqual(kinds, ['epoch', 'resigned', 'void'])
  assert.deepEqual(history.resigned, { successor: 'b' })
})

test('messages are taken in order, each once', () => {
  const { history } = taken(epoch(1, 'a/1'))
  assert.equal(history.apply(1, epoch(1, 'a/1')).kind, 'repeated')
  assert.equal(history.apply(3, message(1, 'a/1', 1, {})).kind, 'gap')
  assert.equal(history.sequence, 1)
})

test('a leader that does not go on where the log ends stops everything', () => {
  const { history, kinds } = taken(epoch(1, 'a/1'), message(1, 'a/1', 1, { kind: 'frames', begin: at(8), end: at(16) }))
  assert.deepEqual(kinds, ['epoch', 'mismatch'])
  assert.equal(history.sequence, 1)
  assert.equal(history.apply(2, epoch(2, 'b/1', at(8))).kind, 'mismatch')
})

test('a history goes on from an anchor', () => {
  const { history } = taken(epoch(3, 'a/1'), message(3, 'a/1', 1, { kind: 'frames', end: at(8), body: 'x' }))
  const next = new StreamHistory<string>(history.anchor)
  assert.equal(
    next.apply(3, message(3, 'a/1', 2, { kind: 'frames', begin: at(8), end: at(16), body: 'y' })).kind,
    'frames',
  )
  assert.deepEqual(next.end, at(16))
})
