/** Specification "Limits" (tenant quotas) and contract "Broker" (--quotas-file). Tests wait as long as the broker tells them to. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { PublishBatchReply } from '../../../src/broker/wire/record-answers.ts'
import { BrokerServer, assertRefused, failToStartBroker } from '../../support/broker.ts'
import type { BrokerReply, Delivery, Stream } from '../../support/broker.ts'
import { eventually, timePasses } from '../../support/waiting.ts'

const A_RECORD_A_SECOND = { publish_records_per_second: 1 }

let broker: BrokerServer
let stream: Stream
before(async () => {
  broker = await BrokerServer.start({ quota: {} })
  stream = await broker.newStream()
})
after(() => broker.stop())

/** Makes the broker read its quotas file again. */
async function reload(quota: object | string, says = 'quotas read again'): Promise<void> {
  const before = broker.stderr.split(says).length
  broker.writeQuota(quota)
  broker.signal('SIGHUP')
  await eventually(() => broker.stderr.split(says).length > before)
}
/** Sets a quota after no quota was set for a moment, so that the tenant owes nothing. */
async function limit(quota: object | string): Promise<void> {
  await reload({})
  await reload(quota)
}
const publish = (payload = 'p'): Promise<BrokerReply> => stream.post('/records', { message_id: 'm', payload })
const batch = (count: number, payload = 'p'): Promise<BrokerReply> =>
  stream.post('/records/batch', { records: Array.from({ length: count }, () => ({ message_id: 'm', payload })) })
/** The tenant owes the time of 300 records: their batch was let in as nothing was owed. */
const drained = async (recordsPerSecond: number): Promise<void> => {
  await limit({ publish_records_per_second: recordsPerSecond })
  assert.equal((await batch(300)).succeeded(PublishBatchReply).published_count, 300)
}

describe('no limit', () => {
  it('holds for a tenant that is not in the file, and for fields that are absent or null', async () => {
    const fields = ['publish_records_per_second', 'publish_bytes_per_second', 'consumers_per_group']
    for (const quota of [{}, Object.fromEntries(fields.map((field) => [field, null]))]) {
      await limit(quota)
      for (let i = 0; i < 20; i++) assert.equal((await publish('x'.repeat(1000))).status, 201)
    }
    await limit(JSON.stringify({ tenants: [{ tenant: 'acme', ...A_RECORD_A_SECOND }] }))
    for (let i = 0; i < 20; i++) assert.equal((await publish()).status, 201)
  })
})

describe('publish_records_per_second', () => {
  it('over it publishing is 429 quota_exceeded, retryable, with Retry-After, and takes no offset', async () => {
    await drained(1)
    const { next_offset } = await stream.describe()
    const refused = await publish()
    assertRefused(refused, 429, 'quota_exceeded')
    assert.equal(refused.refusal().retryable, true)
    assert.equal((await stream.describe()).next_offset, next_offset)
  })
  it('lets the next record in after the wait it told', async () => {
    let refused: BrokerReply
    do {
      await drained(200)
      refused = await publish()
    } while (refused.status === 201) // let in: the machine stalled until nothing was owed
    assertRefused(refused, 429, 'quota_exceeded')
    await timePasses(1000 * Number(refused.headers.get('retry-after')))
    assert.equal((await publish()).status, 201)
  })
  it('counts each record of a batch; one larger than a second’s worth is let in when nothing is owed, and paid for after', async () => {
    await drained(1)
    const refused = await batch(1)
    assertRefused(refused, 429, 'quota_exceeded')
    const waitSeconds = Number(refused.headers.get('retry-after'))
    assert(waitSeconds > 120 && waitSeconds <= 300, String(waitSeconds))
  })
  it('is of the tenant: of all its streams together', async () => {
    await drained(1)
    const other = await broker.newStream()
    assertRefused(await other.post('/records', { message_id: 'm', payload: 'p' }), 429, 'quota_exceeded')
  })
  it('holds nothing but publishing up', async () => {
    await drained(1)
    const delivery = await stream.group('unhindered').claimOne()
    assert.equal((await delivery.ack()).status, 200)
    assert.equal((await stream.replay()).records.length, 100)
  })
})

describe('publish_bytes_per_second', () => {
  it('counts payload bytes', async () => {
    await limit({ publish_bytes_per_second: 1000 })
    assert.equal((await publish('x'.repeat(100_000))).status, 201)
    assertRefused(await publish('x'), 429, 'quota_exceeded')
  })
  it('of a refused publish uses nothing up', async () => {
    await limit({ publish_records_per_second: 1000, publish_bytes_per_second: 1000 })
    for (let i = 0; i < 5; i++) assert.equal((await stream.post('/records', { message_id: '' })).status, 400)
    assert.equal((await publish('x'.repeat(1000))).status, 201)
  })
})

describe('consumers_per_group', () => {
  let active: Delivery[]
  before(async () => {
    await limit({ consumers_per_group: 2 })
    await stream.fill(10)
    const group = stream.group('limited')
    const lease = { lease_timeout_millis: 3_600_000 }
    active = [...(await group.claim({ ...lease, max_messages: 3 })), await group.claimOne(lease)]
  })

  it('refuses the claim that would be one subscription with an active lease too many: 429 quota_exceeded', async () => {
    assertRefused(await stream.group('limited').tryClaim(), 429, 'quota_exceeded')
    assert.equal((await stream.group('limited').describe()).in_flight_count, 4)
  })
  it('is of a group: others are free', async () => {
    assert.equal((await stream.group('other').claim()).length, 1)
  })
  it('gives the place back when the last lease of a subscription ends', async () => {
    const group = stream.group('limited')
    for (const delivery of active.slice(0, 2)) assert.equal((await delivery.ack()).status, 200)
    assertRefused(await group.tryClaim(), 429, 'quota_exceeded')
    assert.equal((await active[2]!.retry(0)).status, 200)
    const short = await group.claimOne({ lease_timeout_millis: 50 })
    await eventually(async () => (await group.tryClaim()).status === 200)
    assertRefused(await short.ack(), 409, 'lease_expired')
  })
})

describe('SIGHUP', () => {
  it('forgives nothing of what is owed under a limit that stays', async () => {
    await drained(1)
    await reload({ publish_records_per_second: 1, consumers_per_group: 5 })
    assertRefused(await publish(), 429, 'quota_exceeded')
  })
  it('with a bad file leaves the quotas as they are, and says why in the log', async () => {
    await drained(1)
    for (const text of ['{', '{"tenants":[{"tenant":"local","publish_records_per_second":0}]}']) {
      await reload(text, 'the quotas file was refused: the quotas before stay in force')
    }
    assertRefused(await publish(), 429, 'quota_exceeded')
  })
})

describe('a start', () => {
  it('with a quotas file that is bad or missing has exit code 2 and names --quotas-file', async () => {
    broker.writeQuota('{"tenants":[{"tenant":"local","records":1}]}')
    const { code, stdout, stderr } = await failToStartBroker(['--quotas-file', `${broker.directory}/quotas.json`])
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /^--quotas-file names a file with a mistake/)
    const missing = await failToStartBroker(['--quotas-file', '/nowhere/quotas.json'])
    const message = '--quotas-file names a file that does not exist: /nowhere/quotas.json\n'
    assert.deepEqual([missing.code, missing.stderr], [2, message])
  })
})
