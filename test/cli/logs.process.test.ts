/** `trilog logs` as people and scripts run it, against a running log store. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, describe, it } from 'node:test'
import { LOGS_COMMANDS } from '../../src/cli/commands/logs.ts'
import { optionsOf } from '../../src/cli/common-options.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { killAtEnd } from '../support/left-behind.ts'
import { LogStoreServer, policyTenant } from '../support/logstore.ts'
import { encodeLogs, encodeTraces, logsRequest, text as attribute, tracesRequest } from '../support/otlp.ts'
import type { LogRecord } from '../support/otlp.ts'
import { runCommand } from '../support/command.ts'
import type { Ending } from '../support/process.ts'
import { eventually } from '../support/waiting.ts'
import { entryFile } from '../support/entry.ts'

const TRILOG = entryFile('src/cli/trilog.js')
const TOKEN = 'token-of-acme-0123456789'
const TIME = 1_763_721_600_000_000_000n

/** A proxy whose address stays the same when the store behind it gets another port. */
class Way {
  readonly #sockets = new Set<Socket>()
  readonly #server: Server

  constructor(address: () => string) {
    this.#server = createServer((client) => {
      const [host, port] = address().split(':')
      const store = connect(Number(port), host)
      for (const [socket, other] of [
        [client, store],
        [store, client],
      ] as const) {
        this.#sockets.add(socket)
        socket.on('error', () => {}) // 'close' follows
        socket.on('close', () => other.destroy())
        socket.pipe(other)
      }
    })
  }

  async url(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // a TCP server has no other kind
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}

const PROTOBUF = { headers: { 'content-type': 'application/x-protobuf' }, tenant: 'acme', token: TOKEN }
const TRACE_ID = Buffer.from('5b8efff798038103d269b633813fc60c', 'hex')
const SPAN_ID = Buffer.from('eee19b7ec3c1b174', 'hex')

const NO_LIMIT = { records: null, bytes: null }
const server = await LogStoreServer.start({ policy: [policyTenant('acme', TOKEN, NO_LIMIT)] })
after(() => server.stop())

async function send(records: readonly LogRecord[], dataset: string): Promise<void> {
  const attributes = [attribute('tenant_id', 'acme'), attribute('service.name', dataset)]
  const reply = await server.request('/v1/logs', encodeLogs(logsRequest(records, attributes)), PROTOBUF)
  assert.equal(reply.status, 200, reply.text)
}

const said = (from: number, count: number, rest: Partial<LogRecord> = {}): LogRecord[] =>
  Array.from({ length: count }, (_, i) => ({
    timeUnixNano: String(TIME + BigInt(from + i) * 1_000_000n),
    severityNumber: 9,
    body: { stringValue: `paid ${from + i}` },
    ...rest,
  }))

const access = (): readonly string[] => ['--target', server.url, '--tenant', 'acme', '--token', TOKEN]
const logs = (...args: readonly string[]): Promise<Ending> =>
  runCommand({ entry: 'src/cli/trilog.js', args: ['logs', ...args, ...access()], env: {} })

/** The output of a command that succeeds and prints nothing on stderr. */
async function answered(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await logs(...args)
  assert.deepEqual([code, stderr], [0, ''], stdout)
  return stdout
}
const has = (command: string): boolean => spawnSync(command, ['--version']).error === undefined
/** The output of a command on a terminal. */
async function onTerminal(program: string, command: string): Promise<string> {
  const child = spawn(program, ['--quiet', '--return', '--command', command, '/dev/null'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TERM: 'xterm', NO_COLOR: '' },
  })
  return (await text(child.stdout)).replaceAll('\r\n', '\n')
}
const json = async (...args: readonly string[]): Promise<Record<string, unknown>> =>
  JSON.parse(await answered(...args, '--output', 'json')) as Record<string, unknown> // the tests check the members

/** A command that runs until it is stopped. */
class Following {
  readonly #child: ChildProcess
  stdout = ''
  stderr = ''

  constructor(args: readonly string[]) {
    this.#child = killAtEnd(spawn(process.execPath, [TRILOG, 'logs', ...args], { stdio: ['ignore', 'pipe', 'pipe'] }))
    this.#child.stdout!.setEncoding('utf8').on('data', (chunk: string) => (this.stdout += chunk))
    this.#child.stderr!.setEncoding('utf8').on('data', (chunk: string) => (this.stderr += chunk))
  }

  get lines(): readonly string[] {
    return this.stdout.split('\n').slice(0, -1)
  }

  /** Stops the command as Ctrl-C does. @returns its exit code */
  async stopped(): Promise<number | null> {
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGINT')
      await once(this.#child, 'exit')
    }
    return this.#child.exitCode
  }
}

for (const from of [0, 400, 800]) await send(said(from, 400), 'shop')
await send(
  [{ ...said(2000, 1)[0]!, severityNumber: 17, body: { stringValue: 'the card was \u001b[31mrefused' } }],
  'shop',
)
await send(said(0, 2, { traceId: TRACE_ID, spanId: SPAN_ID }), 'till')
const span = {
  traceId: TRACE_ID,
  spanId: SPAN_ID,
  name: 'checkout',
  startTimeUnixNano: String(TIME),
  endTimeUnixNano: String(TIME + 5_000_000n),
  status: { code: 2 },
}
const attributes = [attribute('tenant_id', 'acme'), attribute('service.name', 'till')]
const sent = await server.request('/v1/traces', encodeTraces(tracesRequest([span], attributes)), PROTOBUF)
assert.equal(sent.status, 200, sent.text)

describe('trilog logs search', () => {
  it('shows the newest that match in the order of their time, over several pages', async () => {
    const lines = (await answered('search', 'shop', 'paid', '--limit', '700')).trimEnd().split('\n')
    assert.equal(lines.length, 701)
    assert.equal(lines[0], '2025-11-21T10:40:00.500Z  INFO   paid 500')
    assert.equal(lines[699], '2025-11-21T10:40:01.199Z  INFO   paid 1199')
    assert.equal(lines[700], '700 of 1200 records')
  })

  it('shows no byte of a record that moves the cursor', async () => {
    const shown = await answered('search', 'shop', 'severity:>=error')
    assert.equal(shown, '2025-11-21T10:40:02.000Z  ERROR  the card was \\u001b[31mrefused\n1 of 1 records\n')
  })

  it('takes times and the oldest, and answers scripts with one document', async () => {
    const range = ['--from', '2025-11-21T10:40:00.010Z', '--to', String(TIME + 20_000_000n)]
    const { dataset, matched_records, records } = await json('search', 'shop', ...range, '--oldest', '--limit', '3')
    assert.deepEqual([dataset, matched_records], ['shop', 10])
    const times = (records as { time_unix_nano: string }[]).map(({ time_unix_nano }) => BigInt(time_unix_nano) - TIME)
    assert.deepEqual(times, [10_000_000n, 11_000_000n, 12_000_000n])
    const recent = await json('search', 'shop', '--from', '1h')
    assert.deepEqual(recent, { dataset: 'shop', matched_records: 0, records: [] })
  })
})

describe('trilog logs tail', () => {
  it('shows what is stored from now on, of all datasets, and ends when it is told to', async () => {
    const tail = new Following(['tail', '-', 'followed', '--output', 'json', ...access()])
    let sent = 0n
    await eventually(async () => {
      await send([{ timeUnixNano: String(++sent), body: { stringValue: 'followed' } }], 'other')
      return tail.lines.length > 0
    })
    const { dataset, signal } = JSON.parse(tail.lines[0]!) as { dataset: string; signal: string }
    assert.deepEqual([dataset, signal], ['other', 'log'])
    assert.deepEqual([await tail.stopped(), tail.stderr], [0, ''])
  })

  it('search --follow misses nothing between what is there and what comes', async () => {
    await send(said(0, 3), 'kept')
    const tail = new Following(['search', 'kept', 'paid', '--follow', ...access()])
    await eventually(() => tail.lines.length === 3)
    await send(said(3, 2), 'kept')
    await eventually(() => tail.lines.length === 5)
    assert.deepEqual(
      tail.lines.map((line) => line.slice(line.indexOf('paid'))),
      [0, 1, 2, 3, 4].map((i) => `paid ${i}`),
    )
    assert.equal(await tail.stopped(), 0)
  })

  it('goes on behind the last record when the store was killed and started again', async () => {
    const store = await LogStoreServer.start()
    const way = new Way(() => store.readyLine.http)
    const batch = (name: string): object => ({
      resourceLogs: [
        {
          resource: { attributes: [attribute('tenant_id', 'local'), attribute('service.name', 'kept')] },
          scopeLogs: [{ logRecords: [{ timeUnixNano: '1', body: { stringValue: name } }] }],
        },
      ],
    })
    const sendOne = async (name: string): Promise<void> => {
      assert.equal((await store.request('/v1/otlp/logs', batch(name))).status, 200)
    }
    await sendOne('before')
    const tail = new Following(['search', 'kept', '--follow', '--target', await way.url()])
    await eventually(() => tail.lines.length === 1)
    await sendOne('first')
    await eventually(() => tail.lines.length === 2)
    await store.kill()
    await eventually(() => tail.stderr !== '')
    await store.startAgain()
    await sendOne('second')
    await eventually(() => tail.lines.length === 3)
    assert.deepEqual(
      tail.lines.map((line) => line.split('  ').at(-1)!.trim()),
      ['before', 'first', 'second'],
    )
    assert.match(tail.stderr, /^http:.* cannot be reached: .*; trying again\n$/)
    assert.equal(await tail.stopped(), 0)
    way.close()
    await store.stop()
  })
})

describe('trilog logs, for the rest', () => {
  it('shows a trace as a tree', async () => {
    const [head, , ...rows] = (await answered('trace', TRACE_ID.toString('hex'))).trimEnd().split('\n')
    assert.match(head!, /^trace 5b8efff798038103d269b633813fc60c: 1 spans, 2 log records, 5\.00 ms, from /)
    assert.deepEqual(rows, [
      'till  0.00 ms  5.00 ms  checkout  ERROR',
      'till  0.00 ms           · INFO  paid 0',
      'till  1.00 ms           · INFO  paid 1',
    ])
    const { spans, log_records } = await json('trace', TRACE_ID.toString('hex').toUpperCase())
    assert.deepEqual([spans, log_records], [1, 2])
  })

  it('shows the datasets', async () => {
    assert.match(
      await answered('datasets'),
      /^dataset .*\n(.*\n)*till +3 +[\d.]+ [KMi]*B +2025-11-21T10:40:00\.000Z .* log, trace$/m,
    )
    const { datasets } = await json('datasets')
    assert.ok((datasets as { dataset: string }[]).some(({ dataset }) => dataset === 'shop'))
  })

  it('exports every record that matches, one a line, and says how many', async () => {
    const { code, stdout, stderr } = await logs('export', 'shop', 'paid')
    assert.deepEqual([code, stderr], [0, '1200 records\n'])
    const ids = stdout
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { record_id: string }).record_id)
    assert.equal(new Set(ids).size, 1200)
  })

  for (const [row, args, code, says] of [
    ['a search that cannot be', ['search', 'shop', 'severity:loud'], 1, /severity.*column 1.*\(invalid_query\)/],
    ['a trace that is not there', ['trace', '0'.repeat(31) + '1'], 1, /\(trace_not_found\)/],
    ['a trace id that is none', ['trace', 'x'], 2, /32 hexadecimal digits/],
    ['a time that is none', ['search', 'shop', '--from', 'yesterday'], 2, /--from must be/],
    ['an unknown option', ['search', 'shop', '--form', '1h'], 2, /unknown option/],
    ['--follow with an end', ['search', 'a', '--follow', '--to', '1m'], 2, /--follow/],
  ] as const) {
    it(`refuses ${row} with ${code}`, async () => {
      const ended = await logs(...args)
      assert.deepEqual([ended.code, ended.stdout], [code, ''], ended.stderr)
      assert.match(ended.stderr, says)
      assert(!ended.stderr.includes(TOKEN))
    })
  }

  it('refuses a wrong token, in JSON for scripts, and takes tenant and token from the environment', async () => {
    const run = (token: string, ...args: readonly string[]): Promise<Ending> =>
      runCommand({
        entry: 'src/cli/trilog.js',
        args: ['logs', 'datasets', ...args],
        env: { TRILOG_LOGS_TARGET: server.url, TRILOG_LOGS_TENANT: 'acme', TRILOG_LOGS_TOKEN: token },
      })
    assert.equal((await run(TOKEN)).code, 0)
    const { code, stdout, stderr } = await run('wrong-token-987', '--output', 'json')
    assert.deepEqual([code, stdout], [1, ''])
    const { error } = JSON.parse(stderr) as { error: { code: string; retryable: boolean } }
    assert.deepEqual([error.code, error.retryable], ['invalid_credentials', false])
    assert(!stderr.includes('wrong-token-987'))
  })

  it('every command has examples in its help, and its options', async () => {
    for (const command of LOGS_COMMANDS) {
      const ended = await runCommand({
        entry: 'src/cli/trilog.js',
        args: [...command.name.split(' '), '--help'],
        env: {},
      })
      assert.deepEqual([ended.code, ended.stderr], [0, ''])
      for (const { flags } of optionsOf(command)) assert.ok(ended.stdout.includes(`  ${flags}  `), flags)
      for (const example of command.examples) assert.ok(ended.stdout.includes(`  ${example}\n`), example)
    }
  })

  it('is completed by the shell', async () => {
    const { stdout } = await runCommand({ entry: 'src/cli/trilog.js', args: ['completion', 'bash'], env: {} })
    const ask = `COMP_WORDS=(trilog logs search --fol); COMP_CWORD=3; _trilog; echo "\${COMPREPLY[@]}"`
    const shell = spawnSync('bash', [], { input: `${stdout}\n${ask}\n`, encoding: 'utf8' })
    assert.equal(shell.stdout, '--follow\n')
  })

  it('speaks TLS to a store whose authority is named, and to no other', async () => {
    const authority = new Authority('stores')
    const files = new TlsFilesOnDisk()
    files.write(authority.certify([['CN', 'store']]))
    const secure = await LogStoreServer.start({
      env: { LOGSTORE_TLS_CERT_FILE: files.cert, LOGSTORE_TLS_KEY_FILE: files.key },
    })
    const directory = temporaryDirectory()
    const run = async (name: string, { cert }: Authority): Promise<Ending> => {
      const ca = `${directory}/${name}.pem`
      writeFileSync(ca, cert)
      const target = `https://${secure.readyLine.http}`
      return runCommand({
        entry: 'src/cli/trilog.js',
        args: ['logs', 'datasets', '--target', target, '--tls-ca', ca],
        env: {},
      })
    }
    const right = await run('right', authority)
    assert.deepEqual([right.code, right.stdout, right.stderr], [0, 'no datasets\n', ''])
    const wrong = await run('wrong', new Authority('others'))
    assert.deepEqual([wrong.code, wrong.stdout], [1, ''])
    assert.match(wrong.stderr, /\(unreachable\)/)
    await secure.stop()
  })

  const terminal = has('script')
  it(
    `${terminal ? '' : '(not tried: this machine has no script of util-linux) '}has colours on a terminal, and columns that stand where they do without`,
    { skip: !terminal },
    async () => {
      const command = ['search', 'shop', 'severity:>=error', ...access()].map((each) => `'${each}'`).join(' ')
      const shown = await onTerminal('script', `'${process.execPath}' '${TRILOG}' logs ${command}`)
      assert.ok(shown.includes('\u001b[31mERROR\u001b[0m'), JSON.stringify(shown))
      // oxlint-disable-next-line no-control-regex -- the escape is what is looked for
      assert.equal(shown.replaceAll(/\u001b\[\d+m/g, ''), await answered('search', 'shop', 'severity:>=error'))
    },
  )
})
