import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { DeadLetterReply } from '../../../../src/broker/wire/queue-answers.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { Stream } from '../../../support/broker.ts'
import { broker } from './shared-node.ts'
import {
  SYNCED,
  CONTROL,
  delivery,
  identityOf,
  isNow,
  assertEveryVerbRefused,
  assertBodiesRefused,
} from './delivery.ts'

let dead: Stream
before(async () => {
  dead = await broker.newStream()
})

describe('dead-letter', () => {
  it('copies the record with headers that name source stream, source offset and reason, and is terminal', async () => {
    const source = await broker.newStream()
    const target = await broker.newStream()
    await source.publish('before')
    const record = { message_id: 'm-1', payload_hex: '00ff', key: 'k', headers: { a: 'b' }, event_time_ms: 7 }
    await source.publish(record)
    await target.publish('there already')
    const [, claimed] = await source.group().claim({ max_messages: 2 })
    assert(claimed)
    const reply = (await claimed.deadLetter(target.name, 'größe 😀')).succeeded(DeadLetterReply)
    assert.deepEqual(reply, {
      ...identityOf(claimed),
      source_offset: 1,
      dead_letter_stream: target.name,
      dead_letter_offset: 1,
      attempt: 1,
      acknowledgement: SYNCED,
    })
    const { ingest_time_ms, ...copy } = (await target.replay('start_offset=1')).records[0]!
    assert(isNow(ingest_time_ms))
    assert.deepEqual(copy, {
      offset: 1,
      message_id: 'm-1',
      payload_hex: '00ff',
      key_hex: Buffer.from('k').toString('hex'),
      headers: {
        a: 'b',
        'x-dead-letter-source-stream': source.name,
        'x-dead-letter-source-offset': '1',
        'x-dead-letter-reason': 'größe 😀',
        'x-dead-letter-origin-stream': source.name,
        'x-dead-letter-origin-offset': '1',
        'x-dead-letter-count': '1',
      },
      event_time_ms: 7,
    })
    assert.equal((await source.group().leases(true)).leases.at(-1)?.state, 'dead_lettered')
    await assertEveryVerbRefused(claimed, 409, 'lease_not_active')
  })
  it('of a dead letter names the stream it was in last in the same headers, and keeps the first origin', async () => {
    const [first, second] = [await delivery(), await broker.newStream()]
    const target = await broker.newStream()
    await first.deadLetter(target.name, 'once')
    await (await target.group().claimOne()).deadLetter(second.name, 'twice')
    assert.deepEqual((await second.replay()).records[0]?.headers, {
      'x-dead-letter-source-stream': target.name,
      'x-dead-letter-source-offset': '0',
      'x-dead-letter-reason': 'twice',
      'x-dead-letter-origin-stream': first.group.stream.name,
      'x-dead-letter-origin-offset': '0',
      'x-dead-letter-count': '2',
    })
  })
  it('happens once, however many ask at once', async () => {
    const claimed = await delivery()
    const target = await broker.newStream()
    const replies = await Promise.all(Array.from({ length: 6 }, () => claimed.deadLetter(target.name)))
    assert.equal(replies.filter(({ status }) => status === 200).length, 1)
    for (const reply of replies) if (reply.status !== 200) assertRefused(reply, 409, 'lease_not_active')
    assert.equal((await target.describe()).next_offset, 1)
  })
  it('to a stream that is not there is 404 missing_stream, to the reserved one 409 write_not_allowed; the lease stays', async () => {
    const claimed = await delivery()
    assertRefused(await claimed.deadLetter('not there'), 404, 'missing_stream')
    assertRefused(await claimed.deadLetter('system.audit'), 409, 'write_not_allowed')
    assert.equal((await claimed.ack()).status, 200)
  })
  it('takes any text as its reason, and the copy has it', async () => {
    const source = await broker.newStream()
    const target = await broker.newStream()
    const reasons = ['', `two\nlines${CONTROL}`]
    await source.fill(reasons.length)
    for (const reason of reasons) {
      assert.equal((await (await source.group().claimOne()).deadLetter(target.name, reason)).status, 200)
    }
    assert.deepEqual(
      (await target.replay()).records.map(({ headers }) => headers['x-dead-letter-reason']),
      reasons,
    )
  })
  it('requires dead_letter_stream and reason', async () => {
    const good = { dead_letter_stream: dead.name, reason: 'r' }
    await assertBodiesRefused(await delivery(), 'dead-letter', [
      '',
      {},
      { reason: 'r' },
      { dead_letter_stream: dead.name },
      ...[null, 1].map((reason) => ({ ...good, reason })),
      ...[null, '', 'a/b', ' a', 1].map((dead_letter_stream) => ({ ...good, dead_letter_stream })),
    ])
  })
  it('empties nothing of the record: an empty payload and no key stay so', async () => {
    const source = await broker.newStream()
    const target = await broker.newStream()
    await source.publish('')
    await (await source.group().claimOne()).deadLetter(target.name)
    const [copy] = (await target.replay()).records
    assert.deepEqual([copy?.payload_hex, copy?.key_hex], ['', null])
  })
})
