/** A log is copied over real sockets from real files, and a listener refuses requests. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:tls'
import { after, describe, it } from 'node:test'
import { LIMIT_MS, eventually, timePasses } from '../../support/waiting.ts'
import { commitCopy } from '../../../src/cluster/catch-up/commit.ts'
import { copyLog } from '../../../src/cluster/catch-up/copy.ts'
import { EvenReads } from '../../../src/cluster/catch-up/even-reads.ts'
import { openListener } from '../../../src/cluster/catch-up/open-listener.ts'
import { RemoteNode } from '../../../src/cluster/catch-up/remote.ts'
import { PieceConnection } from '../../../src/cluster/catch-up/piece-connection.ts'
import { Refused, replyTo } from '../../../src/cluster/catch-up/reply.ts'
import { answerOn } from '../../../src/cluster/catch-up/server.ts'
import type { Question } from '../../../src/cluster/catch-up/server.ts'
import { loadClusterSettings } from '../../../src/config/cluster.ts'
import { STREAM_BEGIN } from '../../../src/cluster/history.ts'
import { writeAnchor } from '../../../src/cluster/lane/anchor-file.ts'
import { StoreError } from '../../../src/errors.ts'
import { DirectReads } from '../../../src/log/direct-reads.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { inspect } from '../../../src/maintenance/inspect.ts'
import { Authority, TlsFilesOnDisk } from '../../support/certificates.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { writtenLog } from './written-log.ts'

const SECRET = 'correct-horse-battery'
const source = writtenLog(temporaryDirectory(), 3, 200_000)
const tls = new TlsFilesOnDisk()
const authority = new Authority('an authority')
tls.write(authority.certify([['CN', 'localhost']]))

describe('the listener for other nodes', () => {
  const servers: Server[] = []
  const ends: (() => void)[] = []
  const asked: Question[] = []
  /** Memory in which pieces were given. */
  const given: Uint8Array[] = []
  after(() => {
    for (const server of servers) server.close()
    for (const end of ends) end()
  })

  async function listening(isSecure = false, bytesPerSecond = Infinity): Promise<string> {
    const reads = new EvenReads({
      bytesPerSecond,
      direct: (pathOf) => new DirectReads(pathOf),
      nowMs: () => performance.now(),
      after: (delayMs, run) => void timePasses(delayMs).then(run),
    })
    const server = isSecure
      ? createSecureServer({ cert: readFileSync(tls.cert), key: readFileSync(tls.key) })
      : createServer()
    const endPieces = answerOn(server, {
      files: nodeFiles,
      logs: { broker: source },
      readAnchor: () => ({ ...STREAM_BEGIN, sequence: 7, end: source.end }),
      secret: SECRET,
      readPart(...place) {
        given.push(place[2])
        return reads.read(...place)
      },
      async ask(question) {
        asked.push(question)
        if (question.kind === 'hand over' && question.to === 'z')
          throw new StoreError('notFound', 'no_such_node', 'there is no node z')
        return { broker: { node: 'a' } }
      },
    })
    servers.push(server)
    ends.push(endPieces)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return `${isSecure ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  async function copyFrom(node: RemoteNode): Promise<string> {
    const directory = temporaryDirectory()
    const log = { directory, segmentsName: source.segmentsName }
    const listing = await copyLog({ ...log, files: nodeFiles, remote: node.logOf('broker') })
    commitCopy({ ...log, files: nodeFiles, replicas: [], writeAnchor }, listing)
    return directory
  }

  for (const isSecure of [false, true]) {
    it(`gives a log ${isSecure ? 'over TLS' : 'in plain text'} that is whole in the directory that copies it`, async () => {
      given.length = 0
      const url = await listening(isSecure)
      const node = new RemoteNode({ url, secret: SECRET, ca: authority.cert })
      const [log] = inspect(nodeFiles, await copyFrom(node))
      assert.equal(log!.end, source.end.position)
      assert.equal(log!.frames, source.frames)
      assert.deepEqual(log!.problems, [])
      node.close()
      assert(given.length > 1)
      assert.equal(new Set(given.map(({ buffer }) => buffer)).size, 1) // V3: all pieces share one buffer
    })
  }

  it('answers nothing without the secret', async () => {
    const url = await listening()
    for (const authorization of [undefined, 'Bearer ', `Bearer ${SECRET}x`, SECRET]) {
      const reply = await fetch(`${url}/v1/logs/broker`, { headers: authorization ? { authorization } : {} })
      assert.deepEqual([reply.status, await reply.json()], [401, { error: 'the secret is wrong' }])
    }
    const node = new RemoteNode({ url, secret: 'another-secret-of-mine', ca: null })
    await assert.rejects(node.nodes(), { code: 'cluster_secret_wrong', message: /TRILOG_CLUSTER_SECRET differs$/ })
    node.close()
  })

  it('gives no file that is none of a log, and says what it does not know', async () => {
    const url = await listening()
    const line = new PieceConnection({
      url: `${url}/v1/logs/broker/pieces`,
      secret: SECRET,
      ca: null,
      idleMs: LIMIT_MS,
    })
    const ask = async (question: string): Promise<string> => {
      const { kind, bytes, isWhole } = await line.ask(question, Buffer.alloc(10))
      assert(isWhole)
      return `${kind} ${bytes.toString()}`.trim()
    }
    const first = 'path=segments/0000000000000000/records.log'
    const answers = [
      ask('path=FORMAT&from=0&bytes=10'),
      ask('path=segments/../FORMAT&from=0&bytes=10'),
      ask(`${first}&from=0&bytes=x`),
      ask(`${first}&from=0&bytes=${2 ** 30}`),
      ask('path=segments/00000000000000ff/records.log&from=0&bytes=9'),
      ask(`${first}&from=${2 ** 40}&bytes=9`),
    ]
    const noPiece = 'refused there is no such piece'
    const noNumber = 'refused from and bytes must be whole numbers'
    assert.deepEqual(await Promise.all(answers), [noPiece, noPiece, noNumber, noPiece, 'gone', 'piece'])
    line.close()
    const get = async (path: string): Promise<number> =>
      (await fetch(url + path, { headers: { authorization: `Bearer ${SECRET}` } })).status
    assert.equal(await get('/v1/logs/toString'), 404)
    assert.equal(await get('/v1/logs/logstore'), 404)
    assert.equal(await get('/v1/logs/broker/pieces'), 404)
  })

  it('refuses a connection for pieces as it does any request', async () => {
    const url = await listening()
    const refused = async (path: string, secret = SECRET): Promise<string> => {
      const line = new PieceConnection({ url: url + path, secret, ca: null, idleMs: LIMIT_MS })
      const error = await line.ask('', Buffer.alloc(0)).catch((thrown: unknown) => thrown)
      assert(error instanceof Refused)
      return `${error.reply.status} ${error.reply.body.toString()}`
    }
    assert.match(await refused('/v1/logs/broker/pieces', 'another'), /^401 .*the secret is wrong/)
    assert.match(await refused('/v1/logs/logstore/pieces'), /^404 /)
    const { port } = new URL(url)
    const headers = { authorization: `Bearer ${SECRET}`, connection: 'Upgrade', upgrade: 'x' }
    const other = request({ host: '127.0.0.1', port, headers })
    other.end()
    assert.match((await replyTo(other)).body.toString(), /the only protocol to upgrade to is trilog-pieces/)
  })

  it('gives pieces on a new connection when the one before has broken', async () => {
    const url = await listening()
    const node = new RemoteNode({ url, secret: SECRET, ca: null })
    const log = node.logOf('broker')
    const read = () => log.read('segments/0000000000000000/records.log', 0, Buffer.alloc(100))
    const before = await read()
    ends.at(-1)!()
    await eventually(async () => {
      const after = await read().catch((error: unknown) => {
        assert(error instanceof StoreError && error.kind === 'unavailable', String(error))
        return null
      })
      return after !== null && after.equals(before!)
    })
    node.close()
  })

  it('asks its node for the state of the cluster, and for a hand-over', async () => {
    const node = new RemoteNode({ url: await listening(), secret: SECRET, ca: null })
    assert.deepEqual(await node.nodes(), { broker: { node: 'a' } })
    await node.handOver('broker', 'b')
    await assert.rejects(node.handOver(null, 'z'), { message: /there is no node z$/ })
    assert.deepEqual(asked, [
      { kind: 'nodes' },
      { kind: 'hand over', service: 'broker', to: 'b' },
      { kind: 'hand over', service: null, to: 'z' },
    ])
    node.close()
  })

  it('gives no more bytes a second than allowed', async () => {
    const node = new RemoteNode({ url: await listening(false, 2_000_000), secret: SECRET, ca: null })
    const log = node.logOf('broker')
    const beganMs = performance.now()
    for (let n = 0; n < 6; n += 1) await log.read('segments/0000000000000000/records.log', 0, Buffer.alloc(100_000))
    assert(performance.now() - beganMs >= 240, 'the first goes at once, the other five wait')
    node.close()
  })
})

describe('the listener of a process', () => {
  it('shows the certificate that its files have when they are read again, and keeps it when they are bad; so it does with authorities', async () => {
    const files = new TlsFilesOnDisk()
    const first = authority.certify([['CN', 'localhost']])
    files.write(first, authority)
    const settings = loadClusterSettings({
      TRILOG_CLUSTER_SERVERS: '127.0.0.1:1',
      TRILOG_CLUSTER_NAME: 'shop',
      TRILOG_NODE_ID: 'a',
      TRILOG_CLUSTER_SECRET: SECRET,
      TRILOG_CLUSTER_BIND: '127.0.0.1:0',
      TRILOG_CLUSTER_TLS_CERT_FILE: files.cert,
      TRILOG_CLUSTER_TLS_KEY_FILE: files.key,
      TRILOG_CLUSTER_CA_FILE: files.clientCa,
    })!
    const told: string[] = []
    settings.authorities!.onReadAgain((pem) => told.push(pem))
    const logged: string[] = []
    const log = (_details: object, message: string): void => void logged.push(message)
    const node = { nodes: () => ({ broker: 'known' }), handOver: () => [] }
    const services = { logstore: null, objectstore: null, broker: null }
    const opened = await openListener(settings, services, node, { info: log, error: log })
    const { listener } = opened
    const port = Number(listener.address.split(':')[1])
    const shown = (): Promise<string> =>
      new Promise((resolve, reject) => {
        const socket = connect({ host: '127.0.0.1', port, ca: authority.cert }, () => {
          resolve(socket.getPeerX509Certificate()!.toString())
          socket.destroy()
        }).on('error', reject)
      })
    const remote = new RemoteNode({ url: `https://${listener.address}`, secret: SECRET, ca: authority.cert })
    try {
      assert.equal(await shown(), first.cert)
      assert.deepEqual(await remote.nodes(), { broker: 'known' })
      const second = authority.certify([['CN', 'localhost']])
      const other = new Authority('another')
      files.write(second, other)
      opened.reload()
      await eventually(async () => (await shown()) === second.cert)
      writeFileSync(files.key, 'no key')
      writeFileSync(files.clientCa, 'no authority')
      opened.reload()
      assert.deepEqual(logged, [
        'certificates read again',
        'authorities read again',
        'the certificates were not replaced: those before stay in force',
        'the authorities were not replaced: those before stay in force',
      ])
      assert.deepEqual([settings.authorities!.pem, told], [other.cert, [other.cert]])
      assert.equal(await shown(), second.cert)
      assert.deepEqual(await remote.nodes(), { broker: 'known' })
    } finally {
      remote.close()
      await listener.close()
    }
  })
})
