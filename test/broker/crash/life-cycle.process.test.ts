/** Deletes and redrives under kill -9: each happened once or not at all, whether or not its client got an answer. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { Random } from '../../../bench/load/random.ts'
import { RedriveReply } from '../../../src/broker/wire/record-answers.ts'
import { BrokerServer } from '../../support/broker.ts'
import type { BrokerReply } from '../../support/broker.ts'
import { seedOf } from '../../support/seed.ts'

const KILLS = 4
const RECORDS = 60

async function started(context: TestContext): Promise<{ server: BrokerServer; random: Random }> {
  const server = await BrokerServer.start()
  context.after(() => server.kill())
  return { server, random: new Random(seedOf(context)) }
}

/** Kills the process once the first `after` requests are answered. Returns the replies; null: no answer came. */
async function killed(
  server: BrokerServer,
  asked: readonly Promise<BrokerReply>[],
  after: number,
): Promise<(BrokerReply | null)[]> {
  const replies = asked.map((reply) => reply.catch(() => null))
  await Promise.all(replies.slice(0, after))
  await server.kill()
  const all = await Promise.all(replies)
  await server.startAgain()
  return all
}

describe('a broker killed with kill -9', () => {
  it('puts every dead letter back once, however often it is asked', async (context) => {
    const { server, random } = await started(context)
    const source = await server.newStream()
    const dead = await server.newStream()
    await source.fill(RECORDS)
    for (const delivery of await source.group().claim({ max_messages: RECORDS })) await delivery.deadLetter(dead.name)
    for (let kill = 0; kill < KILLS; kill += 1) {
      const asked = Array.from({ length: 12 }, () =>
        dead.post('/dead-letters/redrive', JSON.stringify({ max_records: 1 + random.between(0, 2) })),
      )
      await killed(server, asked, random.between(0, 8))
    }
    const last = await dead.post('/dead-letters/redrive', JSON.stringify({ max_records: 1000 }))
    assert.equal(last.succeeded(RedriveReply).end_of_stream, true)
    const { records } = await source.replay('max_records=1000')
    assert.deepEqual(
      records
        .slice(RECORDS)
        .map(({ message_id }) => message_id)
        .toSorted(),
      records
        .slice(0, RECORDS)
        .map(({ message_id }) => message_id)
        .toSorted(),
    )
  })

  it('deletes a stream whole or not at all, and one of its name is new', async (context) => {
    const { server, random } = await started(context)
    const stream = await server.newStream()
    for (let kill = 0; kill < KILLS; kill += 1) {
      await stream.fill(20)
      const delivery = await stream.group().claimOne()
      const asked = [
        server.request('DELETE', stream.path),
        stream.put(''),
        stream.post('/records', { message_id: 'new', payload: 'p' }),
      ]
      const [deleted, created, published] = await killed(server, asked, random.between(0, 3))
      if (created?.status === 201) assert.equal(deleted?.status ?? 200, 200)
      const described = await server.request('GET', stream.path)
      if (described.status === 404) {
        assert.notEqual(created?.status, 201)
        await stream.put('')
      } else {
        const { records } = await stream.replay()
        const isOld = records.length >= 20 // a new stream has at most one
        if (deleted) assert.equal(deleted.status === 200, !isOld)
        if (isOld && published?.status === 201) assert.equal(records.at(-1)?.message_id, 'new')
        assert.equal((await delivery.ack()).status, isOld ? 200 : 404)
        if (isOld) await server.request('DELETE', stream.path).then(() => stream.put(''))
      }
    }
  })
})
