import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inSlices } from '../../../src/broker/api/sliced-json.ts'
import { SLICE_ENTRIES } from '../../../src/broker/limits.ts'
import { StreamListReply } from '../../../src/broker/wire/record-answers.ts'
import { serializer } from '../../../src/http/serializer.ts'
import { TestBroker } from './support.ts'

const entry = {
  stream: 'größe "1"',
  default_durability: 'local-disk',
  retention: { max_age_millis: null, max_bytes: 9, min_cursor_name: 'main' },
  failure_policy: null,
  first_offset: 0,
  next_offset: 2 ** 53 - 1,
  record_count: 1,
  payload_bytes: 2,
  created_at_ms: 3,
}
const replyOf = (count: number) => ({
  api_version: 'v1' as const,
  streams: Array.from({ length: count }, (_, i) => ({ ...entry, stream: `${entry.stream} ${i}` })),
  stream_count: count,
})

/** What the endpoint is given to send as the reply. */
const sliced = (reply: ReturnType<typeof replyOf>, turn: () => Promise<void>): Promise<unknown> =>
  new Promise((answered, refused) =>
    inSlices<ReturnType<typeof replyOf>>({ answered, refused }, 'streams', turn).answered(reply),
  )

test('a long list is made in slices, and says what the serialiser of the schema would', async () => {
  const stringify = serializer(StreamListReply)
  for (const count of [SLICE_ENTRIES + 1, 2 * SLICE_ENTRIES, 8000]) {
    const reply = replyOf(count)
    let turns = 0
    const made = await sliced(reply, async () => void (turns += 1))
    assert.ok(made instanceof Uint8Array)
    assert.equal(Buffer.from(made).toString(), stringify(reply))
    assert.equal(turns, Math.ceil(count / SLICE_ENTRIES))
  }
})

test('a short list is left to the serialiser', async () => {
  const reply = replyOf(SLICE_ENTRIES)
  assert.equal(await sliced(reply, () => assert.fail('nobody waits for it')), reply)
})

test('GET /v1/streams lets others have their turn while a long list is made', async () => {
  const reply = replyOf(8000)
  let turns = 0
  const broker = await TestBroker.start({ turn: async () => void (turns += 1) })
  broker.instead = () => reply
  const { status, text } = await broker.ask('GET', '/v1/streams')
  await broker.stop()
  assert.deepEqual([status, JSON.parse(text), turns], [200, reply, 16])
})
