import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FOREIGN, HEADER_NAMES, headersOf, messageOf } from '../../src/cluster/headers.ts'
import { STREAM_BEGIN, StreamHistory } from '../../src/cluster/history.ts'
import type { ClusterMessage } from '../../src/cluster/message.ts'

const FRAMES: ClusterMessage<string> = {
  kind: 'frames',
  epoch: 4,
  writer: 'host-1/8f3a/b',
  ordinal: 17,
  begin: { position: 2 ** 50, chain: 0xfedcba98 },
  end: { position: 2 ** 50 + 56, chain: 7 },
  part: null,
  successor: null,
  body: 'x',
}

const throughHeaders = (message: ClusterMessage<string>, changed: Readonly<Record<string, string>> = {}) => {
  const headers = new Map([...headersOf(message), ...Object.entries(changed)])
  for (const name of headers.keys()) assert.ok(HEADER_NAMES.includes(name))
  return messageOf((name) => headers.get(name) ?? '', 'x')
}

test('messages stand in headers as they are for ever', () => {
  assert.deepEqual(headersOf(FRAMES), [
    ['Trilog-Message', '1/frames'],
    ['Trilog-Author', '4/17/host-1/8f3a/b'],
    ['Trilog-Begin', '1125899906842624/fedcba98'],
    ['Trilog-End', '1125899906842680/7'],
  ])
})

test('what went through headers is the same', () => {
  const others: readonly ClusterMessage<string>[] = [
    FRAMES,
    { ...FRAMES, kind: 'part', part: { index: 0, count: 12 } },
    { ...FRAMES, kind: 'epoch', ordinal: 0, body: null },
    { ...FRAMES, kind: 'beat', body: null },
    { ...FRAMES, kind: 'resign', body: null },
    { ...FRAMES, kind: 'resign', successor: 'node-2', body: null },
  ]
  for (const message of others) assert.deepEqual(throughHeaders(message), message)
})

test('what is no message of this format is none', () => {
  for (const [name, value] of [
    ['Trilog-Message', ''],
    ['Trilog-Message', '2/frames'],
    ['Trilog-Message', '1/part'],
    ['Trilog-Message', '1/else'],
    ['Trilog-Author', '4/x/w'],
    ['Trilog-Author', '4/1/'],
    ['Trilog-Begin', '12'],
    ['Trilog-End', '9007199254740993/1'],
    ['Trilog-Part', '0/2'],
  ] as const) {
    assert.equal(throughHeaders(FRAMES, { [name]: value }), null, `${name}: ${value}`)
  }
  assert.equal(
    messageOf(() => '', 'x'),
    null,
  )
})

test('a message of somebody else never counts', () => {
  assert.equal(new StreamHistory<never>(STREAM_BEGIN).apply(1, FOREIGN).kind, 'void')
})
