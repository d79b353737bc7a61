/** What an operator learns when a broker lost files while it was stopped, or loses a replica directory. */
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { HealthReply } from '../../../src/broker/wire/node-answers.ts'
import { QuarantineAcknowledgeReply, QuarantineListReply } from '../../../src/broker/wire/storage-answers.ts'
import { BrokerServer } from '../../support/broker.ts'
import { eventually } from '../../support/waiting.ts'
import { temporaryDirectory } from '../../support/directories.ts'

async function start(context: TestContext, flags: readonly string[] = []): Promise<BrokerServer> {
  const server = await BrokerServer.start({
    flags: ['--segment-bytes', String(1 << 20), '--metrics-exposure', 'http', ...flags],
  })
  context.after(() => server.kill())
  return server
}

async function health(server: BrokerServer): Promise<{ storage: HealthReply['storage']; header: string | null }> {
  const reply = await server.request('GET', '/health')
  return { storage: reply.succeeded(HealthReply).storage, header: reply.headers.get('x-trilog-degraded') }
}

const metric = async (server: BrokerServer, name: string): Promise<string | undefined> =>
  new RegExp(`^${name} (.*)$`, 'm').exec((await server.request('GET', '/metrics')).text)?.[1]

const segmentsOf = (server: BrokerServer): readonly string[] =>
  readdirSync(`${server.dataDirectory}/segments`)
    .filter((name) => /^[0-9a-f]{16}$/.test(name))
    .sort()

describe('a broker that lost something while it was stopped', () => {
  it('says so when the directory of its oldest segment is gone, and counts the records', async (context) => {
    const server = await start(context)
    const stream = await server.newStream()
    for (let batch = 0; batch < 12; batch++) await stream.fill(400, (n) => ''.padEnd(400, `${n}`))
    await eventually(() => readdirSync(server.dataDirectory).some((name) => name.startsWith('checkpoint-')))
    await server.stop()
    const [oldest] = segmentsOf(server)
    rmSync(`${server.dataDirectory}/segments/${oldest!}`, { recursive: true })
    await server.startAgain()
    const { storage, header } = await health(server)
    assert.equal(storage.status, 'degraded')
    assert.match(header!, /missing/)
    assert.equal(await metric(server, 'mq_log_quarantine_incidents'), '1')
    assert.equal(await metric(server, 'mq_degraded'), '1')
    const list = await server.get(`${stream.unversionedPath}/quarantine`, QuarantineListReply)
    assert.deepEqual([list.incident_count, list.incidents[0]!.first_offset], [1, 0])
    const acknowledge = `${stream.unversionedPath}/quarantine/${list.incidents[0]!.incident_id}/acknowledge`
    ;(await server.request('POST', acknowledge, {})).succeeded(QuarantineAcknowledgeReply)
    assert.deepEqual(await health(server), { storage: { status: 'ok' }, header: null })
    assert.equal((await server.request('GET', '/readyz')).text, '{"status":"ok","reasons":[]}\n')
  })

  it('names a directory behind its log that is no segment, and no stream lacks anything', async (context) => {
    const server = await start(context)
    const streams = [await server.newStream(), await server.newStream()]
    for (const stream of streams) await stream.fill(3)
    await server.stop()
    const stray = `${server.dataDirectory}/segments/0000000100000000`
    mkdirSync(stray)
    await server.startAgain()
    const { storage, header } = await health(server)
    assert.equal(storage.status, 'degraded')
    assert(header!.includes(stray), header!)
    for (const stream of streams) {
      assert.equal((await server.get(`${stream.unversionedPath}/quarantine`, QuarantineListReply)).incident_count, 0)
      assert.equal((await stream.replay()).records.length, 3)
      assert.equal((await stream.publish()).offset, 3)
    }
    await server.stop()
    rmSync(stray, { recursive: true })
    await server.startAgain()
    assert.equal((await health(server)).storage.status, 'ok')
  })
})

describe('a broker with replica directories', () => {
  it('names those that vanish, and is read-only for want of a quorum, not of room', async (context) => {
    const replicas = [temporaryDirectory(), temporaryDirectory()] as const
    const flags = replicas.flatMap((directory) => ['--replica-dir', directory])
    const server = await start(context, [...flags, '--write-quorum', '2'])
    const stream = await server.newStream({ default_durability: 'local-quorum' })
    await stream.publish()
    rmSync(replicas[0], { recursive: true })
    await eventually(async () => (await health(server)).storage.status === 'degraded')
    assert((await health(server)).header!.includes(replicas[0]))
    await server.logged(replicas[0])
    assert.equal(await metric(server, 'mq_log_replicas_lost'), '1')
    await stream.publish()
    rmSync(replicas[1], { recursive: true })
    await eventually(async () => (await health(server)).storage.status === 'read-only')
    const { message } = (await health(server)).storage
    for (const directory of replicas) assert(message!.includes(directory), message)
    assert.equal((await server.request('GET', '/readyz')).status, 503)
    assert.equal(server.stderr.includes('is full'), false)
    await server.stop()

    await server.startAgain()
    for (const directory of replicas) {
      await server.logged(new RegExp(`"directory":"${directory}"[^\\n]*filled again`))
    }
    assert.equal((await health(server)).storage.status, 'ok')
    assert.equal((await server.stream(stream.name).replay()).records.length, 2)
  })

  it('starts without one that cannot be used', async (context) => {
    const [replica, broken] = [temporaryDirectory(), temporaryDirectory()] as const
    const server = await start(context, ['--replica-dir', replica, '--replica-dir', broken, '--write-quorum', '2'])
    const stream = await server.newStream({ default_durability: 'local-quorum' })
    await stream.publish()
    await server.stop()
    rmSync(broken, { recursive: true })
    writeFileSync(broken, 'something else is in its way')
    await server.startAgain()
    assert((await health(server)).header!.includes(broken))
    await server.logged(broken)
    await stream.publish()
    assert.equal((await stream.replay()).records.length, 2)
  })
})
