/** Specification "Command-line tool mq", rows "Remote" and "Diagnostics", over TLS: real processes that call nodes in the modes api-key and mtls. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { PERMISSIONS } from '../../src/broker/grants.ts'
import { BrokerServer } from '../support/broker.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import type { Certified } from '../support/certificates.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { assertRefusedRow, mq, mqJson } from './support.ts'

const KEY = 'key-of-anna-0123456789'
const servers = new Authority('servers')
const clients = new Authority('clients')
const directory = temporaryDirectory()

function write(name: string, text: string): string {
  const path = `${directory}/${name}`
  writeFileSync(path, text)
  return path
}

const shown = (name: string, { cert, key }: Certified): readonly string[] => [
  '--tls-cert',
  write(`${name}.pem`, cert),
  '--tls-key',
  write(`${name}.key`, key),
]

const ca = write('servers.pem', servers.cert)
const otherCa = write('others.pem', clients.cert)
const anna = shown('anna', clients.certify([['CN', 'anna']]))
const nobody = shown('nobody', clients.certify([['CN', 'nobody']]))
const stranger = shown('stranger', new Authority('strangers').certify([['CN', 'anna']]))
const grants = PERMISSIONS.map((permission) => ({ permission }))
const key_sha256 = createHash('sha256').update(KEY).digest('hex')
const owner = { tenant: 'acme', principal: 'anna', grants }
const credentials = write(
  'credentials.json',
  JSON.stringify({
    keys: [
      { key_sha256, ...owner },
      { subject: 'CN=anna', ...owner },
    ],
  }),
)

async function collected(at: readonly string[], name: string): Promise<string> {
  const path = `${directory}/${name}.json`
  const { code, stderr } = await mq(['cli', ...at, 'diagnostics', 'collect', '--bundle-id', name, '--output', path])
  assert.deepEqual([code, stderr], [0, ''])
  return readFileSync(path, 'utf8')
}

describe('mq cli --target https://', { concurrency: 2 }, () => {
  const files = new TlsFilesOnDisk()
  let withKeys: BrokerServer
  let withCertificates: BrokerServer
  const tlsFlags = ['--tls-cert', files.cert, '--tls-key', files.key]
  const flagsOf = (mode: string): readonly string[] => [
    ...tlsFlags,
    '--auth-mode',
    mode,
    '--credentials-file',
    credentials,
  ]

  before(async () => {
    files.write(servers.certify([['CN', 'localhost']]), clients)
    withKeys = await BrokerServer.start({ flags: flagsOf('api-key') })
    withCertificates = await BrokerServer.start({ flags: [...flagsOf('mtls'), '--tls-client-ca', files.clientCa] })
  })
  after(async () => {
    await withKeys.stop()
    await withCertificates.stop()
  })

  it('row "Remote": with --tls-ca and a key a node over TLS is asked', async () => {
    const at = ['cli', '--target', withKeys.url, '--tls-ca', ca, '--api-key', KEY]
    assert.equal((await mqJson([...at, 'health']))['node_id'], 'node-1')
    await assertRefusedRow({ row: 'Remote', args: [...at, 'groups', 'none'], code: 1, says: /stream_not_found/ })
    const behind = await mq(['cli', 'health', '--target', withKeys.url, '--tls-ca', ca])
    assert.deepEqual([behind.code, behind.stderr], [0, ''])
    assert.match(behind.stdout, /^status +ok\nservice +mq\nversion +\S+\n$/)
  })

  it('row "Remote": a node in the mode mtls knows the command by --tls-cert and --tls-key', async () => {
    const at = ['cli', '--target', withCertificates.url, '--tls-ca', ca]
    assert.equal((await mqJson([...at, ...anna, 'health']))['node_id'], 'node-1')
    await assertRefusedRow({
      row: 'Remote',
      args: [...at, ...anna, 'groups', 'none'],
      code: 1,
      says: /stream_not_found/,
    })
    await assertRefusedRow({ row: 'Remote', args: [...at, 'groups', 'o'], code: 1, says: /authentication_required/ })
    await assertRefusedRow({
      row: 'Remote',
      args: [...at, ...nobody, 'groups', 'o'],
      code: 1,
      says: /authentication_failed/,
    })
    await assertRefusedRow({
      row: 'Remote',
      args: [...at, ...stranger, 'groups', 'o'],
      code: 1,
      says: /cannot be reached/,
    })
  })

  it('row "Diagnostics": collects over TLS, and the bundle has neither key nor certificate', async () => {
    for (const [name, at] of [
      ['by-key', ['--target', withKeys.url, '--tls-ca', ca, '--api-key', KEY]],
      ['by-certificate', ['--target', withCertificates.url, '--tls-ca', ca, ...anna]],
    ] as const) {
      const text = await collected(at, name)
      assert.match(text, /"collected_from": "remote"/)
      assert.match(text, /"command": "GET \/v1\/audit\/events\?start_offset=0&max_records=100",\s+"status": "200"/)
      assert.ok(!text.includes(KEY))
      assert.doesNotMatch(text, /BEGIN|PRIVATE/)
    }
  })

  it('a node that no authority of --tls-ca signs for is not asked, and the key stays here', async () => {
    await assertRefusedRow({
      row: 'Remote',
      args: ['cli', '--target', withKeys.url, '--tls-ca', otherCa, '--api-key', KEY, 'health'],
      code: 1,
      says: /cannot be reached: .*certificate.*--tls-ca has the authority/s,
    })
  })

  const PLAIN = 'http://127.0.0.1:1'
  const SECURE = 'https://127.0.0.1:1'
  const ROWS: readonly (readonly [args: readonly string[], says: RegExp])[] = [
    [['--target', SECURE], /https is not supported without --tls-ca/],
    [['--target', PLAIN, '--tls-ca', ca], /--tls-ca goes with a --target that begins with https:/],
    [['--target', SECURE, ...anna], /--tls-cert and --tls-key need --tls-ca as well/],
    [['--target', SECURE, '--tls-ca', ca, ...anna.slice(0, 2)], /--tls-cert and --tls-key go together/],
    [['--target', SECURE, '--tls-ca', `${directory}/none`], /--tls-ca names a file that does not exist/],
    [['--target', SECURE, '--tls-ca', credentials], /^(?!.*acme).*--tls-ca names a file without a certificate in PEM/s],
    [
      ['--target', SECURE, '--tls-ca', ca, '--tls-cert', anna[1]!, '--tls-key', nobody[3]!],
      /--tls-key .* does not fit/,
    ],
  ]
  for (const [args, says] of ROWS) {
    it(`a command line that cannot work exits with 2: ${says.source}`, () =>
      assertRefusedRow({ row: 'Remote', args: ['cli', ...args, 'health'], code: 2, says }))
  }

  it('the options of TLS go with --target', () =>
    assertRefusedRow({
      row: 'Remote',
      args: ['cli', '--data-dir', directory, '--tls-ca', ca, 'lease', 'list', 'o', 'g'],
      code: 2,
      says: /--tls-ca goes with --target/,
    }))
})

describe('mq cli health', () => {
  for (const [status, code] of [
    ['ok', 0],
    ['degraded', 1],
    ['read-only', 1],
  ] as const) {
    it(`contract: shows the status ${status}, and exits with ${code}`, async (context) => {
      const storage = { status, message: 'a directory is lost' }
      const node = createServer((_, response) =>
        response.end(JSON.stringify({ status, service: 'mq', version: '1', storage })),
      )
      await once(node.listen(0, '127.0.0.1'), 'listening')
      context.after(() => node.close())
      const target = `http://127.0.0.1:${(node.address() as AddressInfo).port}`
      for (const output of ['text', 'json']) {
        const ended = await mq(['cli', '--target', target, '--output', output, 'health'])
        assert.deepEqual([ended.code, ended.stderr], [code, ''])
        assert.ok(ended.stdout.includes(status) && ended.stdout.includes('a directory is lost'))
      }
    })
  }
})
