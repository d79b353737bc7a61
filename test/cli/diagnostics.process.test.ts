/** Specification "Command-line tool mq", row "Diagnostics": `mq diagnostics collect`, local and remote. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { Check } from 'typebox/value'
import { DiagnosticsBundle } from '../../src/cli/diagnostics-bundle.ts'
import { BrokerServer } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { assertRefusedRow, mq, mqAlone, mqJson } from './support.ts'

const KEY = 'key-of-"anna\\-0123456789'
const PAYLOAD = 'a-payload-that-nobody-may-see'
const PAYLOAD_HEX = Buffer.from(PAYLOAD).toString('hex')
/** The sections of the specification. */
const SECTIONS = [
  'configuration',
  'topology',
  'metrics',
  'stream_metadata',
  'cursor_state',
  'recent_errors',
  'version',
  'command_outputs',
  'redactions',
]

function read(path: string): DiagnosticsBundle & { readonly text: string } {
  const text = readFileSync(path, 'utf8')
  const bundle: unknown = JSON.parse(text)
  assert(Check(DiagnosticsBundle, bundle), text)
  for (const section of SECTIONS) assert.ok(section in bundle, section)
  for (const secret of [KEY, JSON.stringify(KEY).slice(1, -1), PAYLOAD, PAYLOAD_HEX])
    assert.ok(!text.includes(secret), secret)
  return { ...bundle, text }
}

describe('mq diagnostics collect', () => {
  it('row "Diagnostics", remote: everything but payloads, by both spellings; a file only its owner can read', async () => {
    const server = await BrokerServer.start({ flags: ['--metrics-exposure', 'http'] })
    const stream = server.stream('orders')
    await stream.put('')
    await stream.publish(PAYLOAD)
    const collect = ['diagnostics', 'collect', '--bundle-id', 'case-7', '--output']
    for (const [name, args] of [
      ['cli.json', ['cli', '--target', server.url, '--api-key', KEY, ...collect]],
      ['top.json', ['diagnostics', '--output', 'json', ...collect.slice(1, -1), '--target', server.url, '--output']],
    ] as const) {
      const path = `${server.directory}/${name}`
      const { code, stderr } = await mqAlone([...args, path])
      assert.deepEqual([code, stderr], [0, ''])
      assert.equal(statSync(path).mode & 0o777, 0o600)
      const bundle = read(path)
      assert.deepEqual(
        [bundle.schema, bundle.bundle_id, bundle.collected_from, bundle.recent_errors],
        ['broker.diagnostics_bundle.v1', 'case-7', 'remote', []],
      )
      assert(bundle.metrics.available && bundle.stream_metadata.available)
      assert.match(bundle.metrics.text, /^mq_\w+ /m)
      assert.deepEqual(
        bundle.stream_metadata.streams.map((each) => each.stream),
        ['orders'],
      )
      assert.deepEqual(
        bundle.command_outputs.map(({ command, status }) => [command, status]),
        [
          ['GET /health', '200'],
          ['GET /metrics', '200'],
          ['GET /v1/streams', '200'],
          ['GET /v1/replication/status', '200'],
          ['GET /v1/audit/events?start_offset=0&max_records=100', '200'],
        ],
      )
    }
    const withoutMetrics = await BrokerServer.start()
    await mq(['cli', '--target', withoutMetrics.url, ...collect, `${server.directory}/none.json`])
    const { metrics, recent_errors } = read(`${server.directory}/none.json`)
    assert.equal(metrics.available, false)
    assert.deepEqual(recent_errors, [])
    await Promise.all([server.stop(), withoutMetrics.stop()])
  })

  it('row "Diagnostics", remote: asks the five routes and no other, redacts the key, and names what was refused', async () => {
    const asked: string[] = []
    const answer = (request: IncomingMessage): [number, object] => {
      if (request.url === '/health') return [200, { status: 'ok', service: 'mq', version: '1', echo: request.headers }]
      const error = { code: 'authorization_denied', message: `not for ${KEY}`, action: 'a', retryable: false }
      return [403, { api_version: 'v1', error }]
    }
    const fake = createServer((request, response) => {
      asked.push(String(request.url))
      const [status, body] = answer(request)
      response.writeHead(status).end(JSON.stringify(body))
    })
    await once(fake.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(fake.address() as AddressInfo).port}`
    const path = `${temporaryDirectory()}/bundle.json`
    const { code } = await mq([
      'cli',
      '--target',
      url,
      '--api-key',
      KEY,
      'diagnostics',
      'collect',
      '--bundle-id',
      'b',
      '--output',
      path,
    ])
    assert.equal(code, 0)
    const bundle = read(path)
    assert.deepEqual(asked, [
      '/health',
      '/metrics',
      '/v1/streams',
      '/v1/replication/status',
      '/v1/audit/events?start_offset=0&max_records=100',
    ])
    assert.equal(bundle.configuration['api_key'], '[redacted]')
    assert.match(bundle.text, /Bearer \[redacted\]/)
    assert.deepEqual(
      bundle.recent_errors.map((each) => each.code),
      asked.slice(1).map(() => 'authorization_denied'),
    )
    assert.deepEqual(
      bundle.redactions.map(({ field }) => field),
      ['payload, key and headers of records', 'api_key'],
    )
    fake.close()
  })

  it('row "Diagnostics", local: streams, cursors and what went wrong, from the files', async () => {
    const server = await BrokerServer.start()
    const [stream, dead] = [server.stream('orders'), server.stream('orders.dead')]
    await stream.put('')
    await dead.put('')
    await stream.publish(PAYLOAD)
    await stream.group('billing').commit('main', { offset: 1 })
    await (await stream.group('billing').claimOne()).deadLetter('orders.dead', 'no such account')
    await server.stop()
    const path = `${server.directory}/bundle.json`
    const said = await mq([
      'diagnostics',
      'collect',
      '--data-dir',
      server.dataDirectory,
      '--bundle-id',
      'b',
      '--output',
      path,
    ])
    assert.deepEqual([said.code, said.stdout.split('\n')[0]], [0, `wrote ${path}`])
    const { stream_metadata, cursor_state, recent_errors, collected_from } = read(path)
    assert.equal(collected_from, 'local')
    assert(stream_metadata.available && cursor_state.available)
    assert.deepEqual(
      stream_metadata.streams.map((each) => each.stream),
      ['orders', 'orders.dead'],
    )
    assert.deepEqual(
      cursor_state.cursors.map(({ cursor }) => cursor),
      ['main'],
    )
    assert.deepEqual(
      recent_errors.map(({ code, message }) => [code, message]),
      [['delivery_dead_lettered', 'no such account']],
    )
  })

  it('row "Diagnostics", local: a directory that is missing or broken gives a bundle that says so', async () => {
    const directory = temporaryDirectory()
    mkdirSync(`${directory}/broken`)
    writeFileSync(`${directory}/broken/FORMAT`, 'x')
    for (const [name, code] of [
      ['missing', 'data_directory_empty'],
      ['broken', 'log_format_unreadable'],
    ] as const) {
      const path = `${directory}/${name}.json`
      const args = [
        'diagnostics',
        'collect',
        '--data-dir',
        `${directory}/${name}`,
        '--bundle-id',
        'b',
        '--output',
        path,
      ]
      assert.equal((await mq(args)).code, 0)
      assert.deepEqual(
        read(path).recent_errors.map((each) => each.code),
        [code],
      )
    }
    assert.equal(existsSync(`${directory}/missing`), false)
  })

  it('row "Diagnostics": answers with what it wrote by --output json of its group, as --output names the file', async () => {
    const path = `${temporaryDirectory()}/b.json`
    const { code, stdout } = await mq([
      'cli',
      '--output',
      'json',
      'diagnostics',
      'collect',
      '--bundle-id',
      'b',
      '--output',
      path,
      '--data-dir',
      '/missing',
    ])
    assert.equal(code, 0)
    const said = JSON.parse(stdout) as { output: string; bytes: number }
    assert.deepEqual([said.output, said.bytes], [path, statSync(path).size])
  })

  const refused = temporaryDirectory()
  const base = ['diagnostics', 'collect', '--data-dir', `${refused}/none`]
  for (const { args, code, says } of [
    { args: [...base, '--output', `${refused}/b.json`], code: 2, says: /--bundle-id <ID>.* not specified/ },
    { args: [...base, '--bundle-id', 'b'], code: 2, says: /--output <PATH>.* not specified/ },
    {
      args: [...base, '--bundle-id', ' ', '--output', `${refused}/b.json`],
      code: 2,
      says: /--bundle-id must not be blank/,
    },
    {
      args: [...base, '--bundle-id', 'a\nb', '--output', `${refused}/b.json`],
      code: 2,
      says: /--bundle-id must not be/,
    },
    {
      args: [...base, '--bundle-id', 'b', '--output', `${refused}/b.json`, '--include-payloads'],
      code: 2,
      says: /--include-payloads is rejected: payloads are never read/,
    },
    {
      args: [...base, '--bundle-id', 'b', '--output', `${refused}/no/such/b.json`],
      code: 2,
      says: /cannot be written/,
    },
    { args: ['diagnostics'], code: 2, says: /^Usage: mq diagnostics / },
  ] as const) {
    it(`row "Diagnostics": mq ${args.join(' ').replaceAll(refused, 'DIR')} exits with ${code}, and writes nothing`, async () => {
      await assertRefusedRow({ row: 'Diagnostics', args, code, says })
      assert.deepEqual(readdirSync(refused), [])
    })
  }
})

describe('mq cli release', () => {
  const NAMES = ['packet-template', 'evidence-burn-down', 'controlled-beta-onboarding', 'post-pilot-roadmap-reset']
  const options = [
    '--audience',
    'the board',
    '--owner',
    'Anna *A*',
    '--pilot-name',
    'acme',
    '--decision-date',
    '2026-05-01',
  ]

  for (const name of NAMES) {
    it(`row "Release artifacts": ${name} is Markdown, to stdout or a file, with all of its options`, async () => {
      const path = `${temporaryDirectory()}/draft.md`
      const { code, stdout, stderr } = await mq(['cli', 'release', name, ...options])
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(
        stdout,
        /^# .+\n\n- \*\*Audience:\*\* the board\n- \*\*Owner:\*\* Anna \\\*A\\\*\n- \*\*Pilot:\*\* acme\n- \*\*Decision date:\*\* 2026-05-01\n\n## /,
      )
      const json = await mqJson(['cli', 'release', name, ...options, '--output-path', path])
      assert.deepEqual(
        [
          json['artifact'],
          json['audience'],
          json['owner'],
          json['pilot_name'],
          json['decision_date'],
          json['output_path'],
        ],
        [name, 'the board', 'Anna *A*', 'acme', '2026-05-01', path],
      )
      assert.equal(json['markdown'], stdout)
      assert.equal(readFileSync(path, 'utf8'), stdout)
      assert.equal((await mq(['cli', 'release', name])).code, 0)
    })
  }

  for (const [args, says] of [
    [['release', 'novel'], /unknown command 'novel'/],
    [['release'], /^Usage: mq cli release/],
    [['release', NAMES[0]!, '--decision-date', '2026-02-30'], /--decision-date must be a date/],
    [['release', NAMES[0]!, '--decision-date', 'soon'], /--decision-date must be a date/],
    [['release', NAMES[0]!, '--owner', ' '], /--owner must not be blank/],
    [['release', NAMES[0]!, '--output-path', '/no/such/x.md'], /--output-path .* cannot be written/],
    [['release', NAMES[0]!, '--data-dir', '.'], /unknown option '--data-dir'/],
  ] as const) {
    it(`row "Release artifacts": mq cli ${args.join(' ')} exits with 2`, () =>
      assertRefusedRow({ row: 'Release artifacts', args: ['cli', ...args], code: 2, says }))
  }
})
