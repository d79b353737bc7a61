/** Specification "Command-line tool mq", rows "Local data", and contract "Broker", CLI: on real directories. */
import assert from 'node:assert/strict'
import { appendFileSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { before, describe, it } from 'node:test'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { BrokerServer } from '../support/broker.ts'
import type { ReplayedRecord } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { assertRefusedRow, mq, mqAlone, mqJson, snapshot } from './support.ts'
import type { RefusedRow } from './support.ts'
import { entryFile } from '../support/entry.ts'
import { eventually } from '../support/waiting.ts'

const MQ = entryFile('src/cli/mq.js')

describe('mq cli on a data directory', () => {
  const base = temporaryDirectory()
  const data = `${base}/data`
  const local = (...args: readonly string[]): readonly string[] => ['cli', '--data-dir', data, ...args]

  before(async () => {
    await mqJson(local('stream', 'create', 'orders'))
    await mqJson(local('publish', 'orders', '--message-id', 'm-0', '--payload', 'héllo', '--key', 'anna'))
    await mqJson(local('publish', 'orders', '--message-id', 'm-1', '--payload', ''))
    await mqJson(local('cursor', 'commit', 'orders', 'billing', 'main', '1'))
  })

  it('row "stream create": creates a catalog entry, and reuses it', async () => {
    const fresh = `${temporaryDirectory()}/a/b`
    const args = ['cli', '--data-dir', fresh, 'stream', 'create', 'orders']
    assert.deepEqual(await mqAlone(args), { code: 0, stdout: 'created stream orders\n', stderr: '' })
    assert.deepEqual(await mq(args), { code: 0, stdout: 'reused stream orders\n', stderr: '' })
    const again = await mqJson(args)
    assert.deepEqual([again['api_version'], again['stream'], again['created']], ['v1', 'orders', false])
  })

  it('row "publish": appends one record whose payload is text; options may stand before or behind the command', async () => {
    const fresh = `${temporaryDirectory()}/data`
    await mqJson(['cli', 'stream', 'create', 'orders', '--data-dir', fresh])
    const record = ['publish', 'orders', '--message-id', 'm', '--payload', 'x', '--key', 'k']
    const first = await mqJson(['cli', '--data-dir', fresh, ...record])
    assert.deepEqual(
      [first['offset'], first['next_offset'], first['message_id'], first['payload_bytes']],
      [0, 1, 'm', 1],
    )
    assert.deepEqual(first['acknowledgement'], { durability: 'local-sync', durable: true, replicas: 1 })
    const { code, stdout } = await mq(['cli', '--output', 'json', ...record, '--data-dir', fresh])
    assert.equal(code, 0)
    assert.equal((JSON.parse(stdout) as { offset: number }).offset, 1)
    const shown = await mq(['cli', ...record], { MQ_DATA_DIR: fresh })
    assert.equal(shown.stdout, 'published m to orders at offset 2, local-sync\n')
  })

  it('row "replay": a bounded read from an offset', async () => {
    const all = await mqJson(local('replay', 'orders'))
    const records = all['records'] as {
      offset: number
      message_id: string
      payload_hex: string
      key_hex: string | null
    }[]
    assert.deepEqual(
      records.map(({ offset, message_id, payload_hex, key_hex }) => [offset, message_id, payload_hex, key_hex]),
      [
        [0, 'm-0', Buffer.from('héllo').toString('hex'), Buffer.from('anna').toString('hex')],
        [1, 'm-1', '', null],
      ],
    )
    assert.deepEqual([all['next_offset'], all['end_of_stream']], [2, true])
    const one = await mqJson(local('replay', 'orders', '--from-offset', '0', '--limit', '1'))
    assert.deepEqual([(one['records'] as []).length, one['next_offset'], one['end_of_stream']], [1, 1, false])
    const beyond = await mqJson(local('replay', 'orders', '--from-offset', '99'))
    assert.deepEqual([(beyond['records'] as []).length, beyond['end_of_stream']], [0, true])
  })

  it('row "replay": text has its columns below each other', async () => {
    const { code, stdout, stderr } = await mqAlone(local('replay', 'orders'))
    assert.deepEqual([code, stderr], [0, ''])
    const [head, first, second, end] = stdout.split('\n')
    assert.match(head!, /^offset {2}message_id {2}ingested {18}key {3}payload$/)
    assert.match(first!, /^0 {7}m-0 {9}\d{4}-\d\d-\d\dT[\d:.]+Z {2}anna {2}héllo$/)
    assert.match(second!, /^1 {7}m-1 {9}\S+$/)
    assert.equal(end, '2 records, next offset 2, end of stream')
  })

  it('row "cursor commit": persists a cursor', async () => {
    const bundle = `${base}/cursors.json`
    await mq(['diagnostics', 'collect', '--data-dir', data, '--bundle-id', 'b', '--output', bundle])
    const { default: content } = (await import(bundle, { with: { type: 'json' } })) as {
      default: { cursor_state: { cursors: { cursor: string; offset: number; consumer_group: string }[] } }
    }
    const [cursor] = content.cursor_state.cursors
    assert.deepEqual([cursor?.consumer_group, cursor?.cursor, cursor?.offset], ['billing', 'main', 1])
  })

  it('row "lease list": an empty view with runtime_state=not_tracked', async () => {
    for (const flags of [[], ['--include-completed']]) {
      const view = await mqJson(local('lease', 'list', 'orders', 'billing', ...flags))
      assert.deepEqual([view['runtime_state'], view['leases']], ['not_tracked', []])
    }
    const { code, stdout } = await mq(local('lease', 'list', 'orders', 'billing'))
    assert.equal(code, 0)
    assert.match(stdout, /runtime_state=not_tracked/)
  })

  it('contract CLI: commands that read change nothing in the directory, and none that read makes one', async () => {
    const before = snapshot(data)
    for (const args of [
      ['replay', 'orders'],
      ['lease', 'list', 'orders', 'billing'],
      ['replay', 'none'],
    ]) {
      await mq(local(...args))
    }
    await mq(['diagnostics', 'collect', '--data-dir', data, '--bundle-id', 'b', '--output', `${base}/b.json`])
    assert.deepEqual(snapshot(data), before)

    const missing = `${base}/missing`
    for (const args of [
      ['replay', 'orders'],
      ['lease', 'list', 'orders', 'g'],
    ]) {
      await assertRefusedRow({
        row: 'replay',
        args: ['cli', '--data-dir', missing, ...args],
        code: 1,
        says: /holds no data/,
      })
    }
    for (const args of [
      ['publish', 'orders', '--message-id', 'm', '--payload', 'p'],
      ['cursor', 'commit', 'o', 'g', 'c', '0'],
    ]) {
      await assertRefusedRow({
        row: 'publish',
        args: ['cli', '--data-dir', missing, ...args],
        code: 1,
        says: /holds no data/,
      })
    }
    assert.equal(existsSync(missing), false)
  })

  const ROWS: readonly RefusedRow[] = [
    {
      row: 'stream create: a name',
      args: local('stream', 'create', 'a/b'),
      code: 2,
      says: /<stream> must not .*slashes/,
    },
    { row: 'stream create: a name', args: local('stream', 'create', ''), code: 2, says: /<stream> must not be blank/ },
    {
      row: 'stream create: an operand',
      args: local('stream', 'create'),
      code: 2,
      says: /missing required argument 'stream'/,
    },
    {
      row: 'stream create: one operand',
      args: local('stream', 'create', 'a', 'b'),
      code: 2,
      says: /too many arguments/,
    },
    {
      row: 'publish: --message-id',
      args: local('publish', 'orders', '--payload', 'x'),
      code: 2,
      says: /--message-id <ID>.* not specified/,
    },
    {
      row: 'publish: --payload',
      args: local('publish', 'orders', '--message-id', 'x'),
      code: 2,
      says: /--payload <TEXT>.* not specified/,
    },
    {
      row: 'publish: --message-id',
      args: local('publish', 'orders', '--message-id', ' ', '--payload', ''),
      code: 2,
      says: /--message-id must not be blank/,
    },
    {
      row: 'publish: --message-id',
      args: local('publish', 'orders', '--message-id'),
      code: 2,
      says: /argument missing/,
    },
    {
      row: 'publish: a stream',
      args: local('publish', 'none', '--message-id', 'm', '--payload', 'p'),
      code: 1,
      says: /stream_not_found/,
    },
    {
      row: 'replay: positive limit',
      args: local('replay', 'orders', '--limit', '0'),
      code: 2,
      says: /--limit must be a positive integer/,
    },
    {
      row: 'replay: positive limit',
      args: local('replay', 'orders', '--limit', '-1'),
      code: 2,
      says: /--limit must be/,
    },
    {
      row: 'replay: positive limit',
      args: local('replay', 'orders', '--limit', '1.5'),
      code: 2,
      says: /--limit must be/,
    },
    {
      row: 'replay: unsigned offset',
      args: local('replay', 'orders', '--from-offset', '-1'),
      code: 2,
      says: /--from-offset must be an unsigned integer/,
    },
    {
      row: 'replay: unsigned offset',
      args: local('replay', 'orders', '--from-offset', 'x'),
      code: 2,
      says: /--from-offset must be an unsigned integer/,
    },
    {
      row: 'replay: unsigned offset',
      args: local('replay', 'orders', '--from-offset', '9007199254740993'),
      code: 2,
      says: /--from-offset must be an unsigned integer/,
    },
    { row: 'replay: a stream', args: local('replay', 'none'), code: 1, says: /stream_not_found/ },
    {
      row: 'cursor commit: stream must exist locally',
      args: local('cursor', 'commit', 'none', 'g', 'c', '0'),
      code: 1,
      says: /stream_not_found/,
    },
    {
      row: 'cursor commit: offset',
      args: local('cursor', 'commit', 'orders', 'g', 'c', 'x'),
      code: 2,
      says: /<offset> must be an unsigned integer/,
    },
    {
      row: 'cursor commit: offset',
      args: local('cursor', 'commit', 'orders', 'g', 'c'),
      code: 2,
      says: /missing required argument 'offset'/,
    },
    {
      row: 'cursor commit: at most the next offset',
      args: local('cursor', 'commit', 'orders', 'g', 'c', '3'),
      code: 1,
      says: /must not exceed/,
    },
    {
      row: 'cursor commit: not back',
      args: local('cursor', 'commit', 'orders', 'billing', 'main', '0'),
      code: 1,
      says: /write_not_allowed/,
    },
    { row: 'lease list: a stream', args: local('lease', 'list', 'none', 'g'), code: 1, says: /stream_not_found/ },
    {
      row: 'lease list: a group',
      args: local('lease', 'list', 'orders'),
      code: 2,
      says: /missing required argument 'group'/,
    },
    { row: 'exit code 2: usage', args: local('replay', 'orders', '--fast'), code: 2, says: /unknown option '--fast'/ },
    {
      row: 'exit code 2: usage',
      args: local('replay', 'orders', '--output', 'xml'),
      code: 2,
      says: /--output must be text or json/,
    },
    { row: 'exit code 2: usage', args: local('frobnicate'), code: 2, says: /unknown command 'frobnicate'/ },
    { row: 'exit code 2: usage', args: ['cli'], code: 2, says: /^Usage: mq cli / },
    {
      row: 'exit code 2: usage',
      args: local('--target', 'http://127.0.0.1:9', 'lease', 'list', 'o', 'g'),
      code: 2,
      says: /exclude each other/,
    },
    {
      row: 'exit code 2: usage',
      args: local('lease', 'list', 'orders', 'g', '--api-key', 'k'),
      code: 2,
      says: /--api-key goes with --target/,
    },
    {
      row: 'exit code 2: configuration',
      args: ['cli', '--data-dir', '/dev/null', 'replay', 'orders'],
      code: 2,
      says: /--data-dir \/dev\/null cannot be used/,
    },
    {
      row: 'exit code 2: configuration',
      args: ['cli', '--data-dir', '/proc/none', 'stream', 'create', 'orders'],
      code: 2,
      says: /\/proc\/none cannot be created or written/,
    },
  ]
  const tried = (each: RefusedRow): void => {
    const line = each.args.map((arg) => arg.replace(data, 'DATA')).join(' ')
    it(`row "${each.row}": mq ${line} exits with ${each.code}`, () => assertRefusedRow(each))
  }
  ROWS.filter(({ code }) => code === 1).forEach(tried)
  describe('refuses, before it opens the directory', { concurrency: 2 }, () =>
    ROWS.filter(({ code }) => code === 2).forEach(tried),
  )

  it('contract CLI: with --output json a refusal is JSON too, on stderr', async () => {
    const { code, stdout, stderr } = await mq(local('replay', 'none', '--output', 'json'))
    assert.deepEqual([code, stdout], [1, ''])
    assert.deepEqual(JSON.parse(stderr), {
      api_version: 'v1',
      error: {
        code: 'stream_not_found',
        message: 'there is no stream none',
        action: 'Create the stream, or use one that exists.',
        retryable: false,
      },
    })
  })

  it('shows control characters of records instead of sending them to the terminal', async () => {
    const fresh = `${temporaryDirectory()}/data`
    await mqJson(['cli', '--data-dir', fresh, 'stream', 'create', 'odd'])
    await mqJson(['cli', '--data-dir', fresh, 'publish', 'odd', '--message-id', 'm', '--payload', '\u001b[2J\u202ex\n'])
    const { stdout } = await mq(['cli', '--data-dir', fresh, 'replay', 'odd'])
    assert.match(stdout, / \\u001b\[2J\\u202ex\\u000a\n/)
  })
})

/** The records of a page without the members that the command line adds: payload and key as text. */
const wireRecords = (page: Readonly<Record<string, unknown>>): readonly ReplayedRecord[] =>
  (page['records'] as (ReplayedRecord & { payload?: string; key?: string })[]).map(({ payload, key, ...record }) => {
    assert.equal(payload, Buffer.from(record.payload_hex, 'hex').toString())
    assert.equal(key, record.key_hex)
    return record
  })

describe('the output of mq cli', () => {
  it('that cannot be written is a failure; that nobody wants any more is none', async () => {
    const run = async (redirection: string): Promise<string> => {
      const command = `"$0" "$1" cli release packet-template ${redirection}`
      const child = spawn('bash', ['-c', command, process.execPath, MQ], { stdio: ['ignore', 'pipe', 'pipe'] })
      const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
      return `${code} ${stdout}${stderr}`
    }
    assert.match(await run('> /dev/full'), /^1 error: the answer cannot be written: .*ENOSPC/)
    assert.equal(await run('| true; exit "${PIPESTATUS[0]}"'), '0 ')
  })
})

describe('mq cli on the directory of a node', () => {
  it('refuses it clearly while the node holds it, whatever the command', async () => {
    const server = await BrokerServer.start()
    const local = ['cli', '--data-dir', server.dataDirectory]
    const collect = ['diagnostics', 'collect', '--bundle-id', 'b', '--output', `${server.directory}/b.json`]
    const says = new RegExp(`in use by process ${server.pid}.*data_directory_locked.*\n.*--target`)
    for (const args of [
      [...local, 'stream', 'create', 'orders'],
      [...local, 'publish', 'orders', '--message-id', 'm', '--payload', 'p'],
      [...local, 'replay', 'orders'],
      [...local, 'cursor', 'commit', 'orders', 'g', 'c', '0'],
      [...local, 'lease', 'list', 'orders', 'g'],
      [...collect, '--data-dir', server.dataDirectory],
    ]) {
      await assertRefusedRow({ row: 'Local data', args, code: 1, says })
    }
    assert.equal(existsSync(`${server.directory}/b.json`), false)
    await server.stop()
  })

  it('reads after a kill what the node would serve, over many segments, and repairs nothing', async () => {
    const server = await BrokerServer.start({ flags: ['--segment-bytes', '1048576'] })
    const stream = await server.newStream()
    for (let round = 0; round < 4; round += 1) await stream.fill(500, (number) => `${round}-${number}-`.repeat(300))
    const expected: ReplayedRecord[] = []
    for (let from = 0; from < 2000; from += 1000) {
      expected.push(...(await stream.replay(`start_offset=${from}&max_records=1000`)).records)
    }
    await server.kill()
    const files = globSync(`${server.dataDirectory}/segments/*/records.log`).sort()
    assert.ok(files.length > 1, 'several segments')
    appendFileSync(files.at(-1)!, Buffer.alloc(100, 0xff)) // a torn frame at the end
    const before = snapshot(server.dataDirectory)
    const page = await mqJson(['cli', '--data-dir', server.dataDirectory, 'replay', stream.name, '--limit', '5000'])
    assert.deepEqual(wireRecords(page), expected)
    assert.deepEqual([page['next_offset'], page['end_of_stream']], [2000, true])
    assert.deepEqual(snapshot(server.dataDirectory), before)

    const damaged = readFileSync(files[0]!)
    damaged[damaged.byteLength >> 1]! ^= 1
    writeFileSync(files[0]!, damaged)
    const rest = await mqJson(['cli', '--data-dir', server.dataDirectory, 'replay', stream.name, '--limit', '5000'])
    const { quarantined_records: lost } = rest['diagnostics'] as { quarantined_records: number }
    assert.ok(lost > 0)
    const left = wireRecords(rest)
    assert.equal(left.length, 2000 - lost)
    assert.deepEqual(
      left,
      expected.filter(({ offset }) => left.some((each) => each.offset === offset)),
    )
  })

  it('reads past a damaged checkpoint and a half-written one, and removes neither', async () => {
    const server = await BrokerServer.start({ flags: ['--segment-bytes', '1048576'] })
    const stream = await server.newStream()
    const checkpoints = (): readonly string[] => globSync(`${server.dataDirectory}/checkpoint-*.bin`).sort()
    await eventually(async () => {
      await stream.fill(500, (number) => `${number}-`.repeat(300))
      return checkpoints().length > 0
    })
    const expected = (await stream.replay('max_records=1000')).records
    await server.kill()
    const newest = checkpoints().at(-1)!
    appendFileSync(newest, 'more')
    writeFileSync(newest.replace(/.\.bin$/, 'f.bin.tmp'), 'half')
    const before = snapshot(server.dataDirectory)
    const args = [
      'cli',
      '--data-dir',
      server.dataDirectory,
      '--output',
      'json',
      'replay',
      stream.name,
      '--limit',
      '1000',
    ]
    const { code, stdout } = await mq(args)
    assert.equal(code, 0)
    assert.deepEqual(wireRecords(JSON.parse(stdout) as Record<string, unknown>), expected)
    assert.deepEqual(snapshot(server.dataDirectory), before)
  })

  it('is told when a directory holds something else', async () => {
    const directory = temporaryDirectory()
    mkdirSync(`${directory}/segments/0`, { recursive: true })
    writeFileSync(`${directory}/FORMAT`, 'of another program')
    const row = { row: 'Local data', args: ['cli', '--data-dir', directory, 'replay', 'orders'], code: 1 } as const
    await assertRefusedRow({ ...row, says: /FORMAT is damaged or not of this program/ })
  })
})
