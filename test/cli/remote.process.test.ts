/** Specification "Command-line tool mq", row "Remote", and our own commands that call a real node. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { after, before, describe, it } from 'node:test'
import { BrokerServer } from '../support/broker.ts'
import type { Stream } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { assertRefusedRow, mq, mqAlone, mqJson } from './support.ts'
import type { RefusedRow } from './support.ts'
import { entryFile } from '../support/entry.ts'

const KEY = 'key-of-anna-0123456789'
const MQ = entryFile('src/cli/mq.js')

describe('mq cli --target', { concurrency: 2 }, () => {
  let server: BrokerServer
  let stream: Stream
  const remote = (...args: readonly string[]): readonly string[] => ['cli', '--target', server.url, ...args]

  before(async () => {
    server = await BrokerServer.start()
    stream = server.stream('orders')
    await stream.put('')
    await stream.fill(5)
    const [first] = await stream.group('billing').claim({ max_messages: 2, lease_timeout_millis: 3_600_000 })
    await first!.ack()
    await stream.group('billing').commit('main', { offset: 3 })
  })
  after(() => server.stop())

  it('row "Remote": health', async () => {
    const health = await mqJson(remote('health'))
    assert.deepEqual([health['status'], health['service'], health['node_id']], ['ok', 'mq', 'node-1'])
    const { stdout } = await mqAlone(['cli', 'health', '--target', `${server.url}/`])
    assert.match(stdout, /^status {10}ok\nservice {9}mq\n/)
  })

  it('row "Remote": consumer-group describe', async () => {
    const group = await mqJson(remote('consumer-group', 'describe', 'orders', 'billing'))
    assert.deepEqual([group['mode'], group['progress_offset'], group['in_flight_count']], ['shared_queue', 1, 1])
    const { stdout } = await mq(remote('consumer-group', 'describe', 'orders', 'billing'))
    assert.match(stdout, /^lag {18}4$/m)
  })

  it('row "Remote": cursor list', async () => {
    const { cursors } = await mqJson(remote('cursor', 'list', 'orders', 'billing'))
    assert.deepEqual(
      (cursors as { cursor: string; offset: number }[]).map(({ cursor, offset }) => [cursor, offset]),
      [['main', 3]],
    )
    const { stdout } = await mq(remote('cursor', 'list', 'orders', 'billing'))
    assert.match(stdout, /^cursor {2}offset {2}updated\nmain {4}3 {7}\d{4}-/)
  })

  it('row "Remote": lease list, with and without those that are over', async () => {
    const active = await mqJson(remote('lease', 'list', 'orders', 'billing'))
    const all = await mqJson(remote('lease', 'list', 'orders', 'billing', '--include-completed'))
    assert.deepEqual([active['lease_count'], all['lease_count']], [1, 2])
    const { stdout } = await mq(remote('lease', 'list', 'orders', 'billing', '--include-completed'))
    assert.match(stdout, /^0 +1 +acked /m)
  })

  it('row "Remote": path tokens are URL-encoded', async () => {
    const odd = server.stream('a b?c#d%ü')
    await odd.put('')
    const described = await mqJson(remote('consumer-group', 'describe', odd.name, 'x y&z'))
    assert.deepEqual([described['stream'], described['consumer_group']], [odd.name, 'x y&z'])
  })

  it('ours: groups, peek', async () => {
    const { consumer_groups } = await mqJson(remote('groups', 'orders'))
    assert.equal((consumer_groups as { consumer_group: string }[])[0]?.consumer_group, 'billing')
    const { records } = await mqJson(remote('peek', 'orders', '--limit', '2'))
    assert.deepEqual(
      (records as { offset: number }[]).map(({ offset }) => offset),
      [3, 4],
    )
    const { stdout } = await mq(remote('peek', 'orders', '--from-offset', '0', '--limit', '1'))
    assert.match(stdout, /^0 {7}m-0 .* 0\n1 records, next offset 1\n$/m)
  })

  it('ours: tail shows what comes, one record a line, until it is told to stop', async () => {
    const followed = await server.newStream()
    await followed.publish('before')
    const args = [MQ, ...remote('tail', followed.name, '--output', 'json', '--from-offset', '0')]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    const next = async (): Promise<string> => {
      const { value } = await lines.next()
      const { payload_hex } = JSON.parse(String(value)) as { payload_hex: string }
      return Buffer.from(payload_hex, 'hex').toString()
    }
    assert.equal(await next(), 'before')
    await followed.publish('while it waits')
    assert.equal(await next(), 'while it waits')
    child.kill('SIGINT')
    assert.deepEqual(await once(child, 'close'), [0, null])
  })

  it('ours: tail ends after --limit records, and when nobody reads any more', async () => {
    const { code, stdout } = await mq(remote('tail', 'orders', '--from-offset', '0', '--limit', '3'))
    assert.deepEqual([code, stdout.split('\n').length], [0, 4])
    const child = spawn(process.execPath, [MQ, ...remote('tail', 'orders', '--from-offset', '0')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(child.stdout, 'data')
    child.stdout.destroy()
    await stream.publish('nobody reads it')
    assert.deepEqual(await once(child, 'close'), [0, null])
  })

  it('ours: seek and redrive change nothing without --yes', async () => {
    const source = await server.newStream()
    const dead = await server.newStream()
    await source.fill(3)
    const group = source.group('g')
    for (const delivery of await group.claim({ max_messages: 3 })) await delivery.deadLetter(dead.name)

    const redrive = remote('redrive', dead.name, '--offsets', '0,2', '--reason', 'repaired')
    await assertRefusedRow({
      row: 'redrive',
      args: redrive,
      code: 2,
      says: /would put 2 dead letters of .* back/,
    })
    assert.equal((await source.describe()).next_offset, 3)
    const redriven = await mqJson([...redrive, '--yes'])
    assert.deepEqual([redriven['redriven_count'], (await source.describe()).next_offset], [2, 5])
    const rest = await mq(remote('redrive', dead.name, '--yes'))
    assert.equal(rest.code, 0)
    assert.match(rest.stdout, /put back 1 of \d dead letters\n$/)
    assert.equal((await source.describe()).next_offset, 6)

    for (const delivery of await group.claim({ max_messages: 10 })) await delivery.ack()
    const seek = remote('seek', source.name, 'g', '--to-offset', '2', '--reason', 'again')
    await assertRefusedRow({
      row: 'seek',
      args: seek,
      code: 2,
      says: /would have g process records .* again/,
    })
    assert.equal((await group.describe()).progress_offset, 6)
    assert.equal((await mqJson([...seek, '--yes']))['offset'], 2)
    assert.equal((await group.describe()).progress_offset, 2)
  })

  const DATA_WRITES = [
    ['stream', 'create', 'orders'],
    ['publish', 'orders', '--message-id', 'm', '--payload', 'p'],
    ['cursor', 'commit', 'orders', 'g', 'c', '0'],
    ['replay', 'orders'],
    ...['packet-template', 'evidence-burn-down', 'controlled-beta-onboarding', 'post-pilot-roadmap-reset'].map(
      (name) => ['release', name],
    ),
  ]
  for (const args of DATA_WRITES) {
    it(`row "Remote": data writes and release artifacts are unsupported: ${args.join(' ')}`, async () => {
      await assertRefusedRow({
        row: 'Remote',
        args: remote(...args),
        code: 2,
        says: /is not supported through --target/,
      })
      assert.equal((await stream.describe()).stream, 'orders')
    })
  }

  const ROWS: readonly (Omit<RefusedRow, 'args'> & { readonly args: (url: string) => readonly string[] })[] = [
    {
      row: 'only plain http',
      args: (url) => ['cli', '--target', url.replace('http', 'https'), 'health'],
      code: 2,
      says: /https is not supported/,
    },
    {
      row: 'http://host:port',
      args: () => ['cli', '--target', '127.0.0.1:7400', 'health'],
      code: 2,
      says: /must be http:\/\/host:port/,
    },
    {
      row: 'http://host:port',
      args: (url) => ['cli', '--target', `${url}/v1`, 'health'],
      code: 2,
      says: /must be http:\/\/host:port/,
    },
    {
      row: 'http://host:port',
      args: () => ['cli', '--target', 'http://anna:secret@127.0.0.1:1', 'health'],
      code: 2,
      says: /^(?!.*secret).*must be http:\/\/host:port/s,
    },
    { row: 'http://host:port', args: () => ['cli', 'health'], code: 2, says: /give --target http:\/\/host:port/ },
    {
      row: 'a stream that there is not',
      args: (url) => ['cli', '--target', url, 'cursor', 'list', 'none', 'g'],
      code: 1,
      says: /stream_not_found/,
    },
    {
      row: 'a name',
      args: (url) => ['cli', '--target', url, 'cursor', 'list', 'a/b', 'g'],
      code: 2,
      says: /<stream> must not/,
    },
    {
      row: 'a name',
      args: (url) => ['cli', '--target', url, 'cursor', 'list', '..', 'g'],
      code: 2,
      says: /cannot stand in a URL/,
    },
    {
      row: 'a key',
      args: (url) => ['cli', '--target', url, '--api-key', 'a b', 'health'],
      code: 2,
      says: /^(?!.*a b).*--api-key must be/s,
    },
    {
      row: 'peek',
      args: (url) => ['cli', '--target', url, 'peek', 'orders', '--limit', '1001'],
      code: 2,
      says: /at most 1000/,
    },
    {
      row: 'seek',
      args: (url) => ['cli', '--target', url, 'seek', 'orders', 'g', '--reason', 'x', '--yes'],
      code: 2,
      says: /one of --to-offset/,
    },
    {
      row: 'redrive',
      args: (url) => ['cli', '--target', url, 'redrive', 'orders', '--offsets', '1,x', '--yes'],
      code: 2,
      says: /--offsets must be an unsigned integer/,
    },
  ]
  for (const { row, args, code, says } of ROWS) {
    it(`row "${row}": mq ${args('http://…').join(' ')} exits with ${code}`, () =>
      assertRefusedRow({ row, args: args(server.url), code, says }))
  }
})

describe('mq cli --target --api-key', () => {
  const directory = temporaryDirectory()
  const credentials = `${directory}/keys.json`
  const grants = [{ permission: 'tenant.inspect' }, { permission: 'stream.consume' }]
  const key_sha256 = createHash('sha256').update(KEY).digest('hex')
  writeFileSync(credentials, JSON.stringify({ keys: [{ key_sha256, tenant: 'acme', principal: 'anna', grants }] }))

  it('contract: the key opens what it may, 401 and 403 exit with 1, and no message has the key', async () => {
    const server = await BrokerServer.start({ flags: ['--auth-mode', 'api-key', '--credentials-file', credentials] })
    const list = (key: readonly string[]): readonly string[] => [
      'cli',
      '--target',
      server.url,
      ...key,
      'cursor',
      'list',
      'orders',
      'g',
    ]
    const { code, stdout } = await mq(['cli', '--target', server.url, 'health'])
    assert.equal(code, 0)
    assert.match(stdout, /^status +ok\nservice +mq\nversion +\S+\n$/)
    for (const [key, says] of [
      [[], /authentication_required/],
      [['--api-key', `${KEY}x`], /authentication_failed/],
      [['--api-key', KEY], /stream_not_found/],
    ] as const) {
      await assertRefusedRow({ row: 'Remote', args: list(key), code: 1, says })
    }
    const inTheVariable = await mq(list([]), { MQ_API_KEY: KEY })
    assert.match(inTheVariable.stderr, /stream_not_found/)
    const denied = await mq([
      'cli',
      '--target',
      server.url,
      '--api-key',
      KEY,
      'seek',
      'orders',
      'g',
      '--to-offset',
      '0',
      '--reason',
      'r',
      '--yes',
    ])
    assert.equal(denied.code, 1)
    assert.match(denied.stderr, /authorization_denied/)
    for (const { stderr } of [inTheVariable, denied]) assert.ok(!stderr.includes(KEY))
    await server.stop()
  })

  it('contract: sends Authorization: Bearer, follows no redirect, and scrubs the key from what comes back', async () => {
    const seen: string[] = []
    const fake = createServer((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers.authorization}`)
      if (request.url === '/health') response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()
      else {
        const error = { code: 'internal_error', message: `no luck with ${KEY}`, action: 'none', retryable: false }
        response.writeHead(500).end(JSON.stringify({ api_version: 'v1', error }))
      }
    })
    await once(fake.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(fake.address() as AddressInfo).port}`
    const redirected = await mq(['cli', '--target', url, '--api-key', KEY, 'health'])
    assert.equal(redirected.code, 1)
    assert.match(redirected.stderr, /status 302, and is no broker/)
    const refused = await mq(['cli', '--target', url, '--api-key', KEY, 'groups', 'o'])
    assert.match(refused.stderr, /no luck with \[redacted\]/)
    assert.deepEqual(seen, [`GET /health Bearer ${KEY}`, `GET /v1/streams/o/consumer-groups Bearer ${KEY}`])
    fake.close()
    await once(fake, 'close')
    const gone = await mq(['cli', '--target', url, '--api-key', KEY, 'health'])
    assert.equal(gone.code, 1)
    assert.match(gone.stderr, /cannot be reached: .*ECONNREFUSED/)
  })
})
