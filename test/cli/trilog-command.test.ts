/** Contract "Commands": what the command lines of `trilog` do. */
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { placeProblems } from '../../src/cli/place-problems.ts'
import { problemsOf } from '../../src/cli/settings-report.ts'
import { styleFor } from '../../src/cli/style.ts'
import { trilogCommand } from '../../src/cli/trilog-command.ts'
import type { Output } from '../../src/cli/trilog-command.ts'
import { allSettings, flagOf } from '../../src/config/all-settings.ts'
import type { Config } from '../../src/config/config.ts'
import { DurableMark } from '../../src/log/durable-mark.ts'
import { writeFormat } from '../../src/log/format.ts'
import { nodeFiles } from '../../src/log/node-files.ts'
import { temporaryDirectory } from '../support/directories.ts'

type Environment = Readonly<Record<string, string>>

const answerTo = (args: readonly string[], env: Environment = {}) =>
  trilogCommand(args, env, { version: '1.2.3', node: '22.18.0' })

function started(args: readonly string[], env: Environment = {}): Config {
  const answer = answerTo(['start', ...args], env)
  assert(answer.kind === 'start')
  return answer.config
}

/** What the command prints, including `check`. */
function said(args: readonly string[], env: Environment = {}): Output {
  const answer = answerTo(args, env)
  assert(answer.kind === 'check' || answer.kind === 'say')
  return answer.kind === 'check' ? answer.answer(placeProblems(answer.settings)) : answer
}

/** Makes the directory of a service that has stored something. */
function makeLog(directory: string, segmentsName: string): void {
  writeFormat(nodeFiles, directory, 7)
  mkdirSync(`${directory}/${segmentsName}`)
  DurableMark.set(nodeFiles, directory, 7, { epoch: 1, position: 100, begin: null })
}

const mistakesOf = (args: readonly string[], env: Environment = {}): readonly string[] =>
  problemsOf(() => answerTo(args, env))

/** Writes a file of settings. @returns its path */
function fileOf(text: string): string {
  const path = `${temporaryDirectory()}/settings`
  writeFileSync(path, text)
  return path
}

interface Reported {
  readonly valid: boolean
  readonly settings: readonly { variable: string; flag: string; value: string | null; source: string }[]
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

const reportOf = (args: readonly string[], env: Environment = {}): Reported =>
  JSON.parse(said(['config', '--output', 'json', ...args], env).text) as Reported // the tests check the members

describe('trilog start', () => {
  it('starts all services, or those of --services', () => {
    const running = ({ services }: Config): string[] =>
      Object.entries(services).flatMap(([name, config]) => (config === null ? [] : [name]))
    assert.deepEqual(running(started([])), ['logstore', 'objectstore', 'broker'])
    assert.deepEqual(running(started(['--services', 'broker,logstore'])), ['logstore', 'broker'])
    const env = { TRILOG_CONFIG: fileOf('TRILOG_SERVICES=broker') }
    assert.deepEqual(running(started([], env)), ['broker'])
    assert.deepEqual(running(started([], { ...env, TRILOG_SERVICES: 'logstore' })), ['logstore'])
    assert.deepEqual(mistakesOf(['start', '--services', ',']), [
      'TRILOG_SERVICES must name at least one of: logstore, objectstore, broker',
    ])
  })

  it('takes settings from flags, then the environment, then the file, then their defaults', () => {
    const TRILOG_CONFIG = fileOf('MQ_NODE_ID=file\nMQ_WRITE_QUORUM=1\nMQ_REPLICA_DIRS=/file\nTRILOG_LOG_LEVEL=warn')
    const env = { TRILOG_CONFIG, MQ_NODE_ID: 'env', MQ_REPLICA_DIRS: '/env' }
    const { logLevel, services } = started(['--mq-replica-dirs', '/a', '--mq-replica-dirs=/b'], env)
    assert.equal(logLevel, 'warn')
    assert.deepEqual(
      [services.broker?.nodeId, services.broker?.writeQuorum, services.broker?.replicaDirectories],
      ['env', 1, ['/a', '/b']],
    )
    assert.equal(started(['--config', TRILOG_CONFIG]).services.broker?.nodeId, 'file')
  })

  it('tells every mistake of flags, file and settings at once', () => {
    const file = fileOf('A=1')
    const args = ['start', 'all', '--nope=1', '--mq-segment-bytes', '1', '--services', 'x', '--config', file]
    assert.deepEqual(mistakesOf(args, { TRILOG_LOG_LEVEL: 'loud' }), [
      '--nope is no flag of trilog: see trilog --help',
      'trilog start takes no all: see trilog --help',
      `TRILOG_CONFIG names ${file} with a mistake in line 1: there is no setting of this name`,
      'TRILOG_LOG_LEVEL must be trace or debug or info or warn or error or fatal or silent',
      'TRILOG_SERVICES must be a comma-separated list of: logstore, objectstore, broker',
    ])
    assert.deepEqual(mistakesOf(['start', '--mq-segment-bytes', '1']), [
      'MQ_SEGMENT_BYTES must be a whole number from 1048576 to 1073741824',
    ])
  })
})

describe('trilog config', () => {
  it('shows every setting, its flag, its value and where that comes from', () => {
    const TRILOG_CONFIG = fileOf('OBJSTORE_REGION=eu-west-1')
    const { valid, settings } = reportOf(['--mq-node-id', 'n'], { TRILOG_CONFIG, TRILOG_LOG_LEVEL: 'warn' })
    assert.equal(valid, true)
    assert.deepEqual(
      settings.map(({ variable }) => variable),
      Object.keys(allSettings),
    )
    const shown = (name: string) => settings.find(({ variable }) => variable === name)
    const row = (variable: string, flag: string, value: string | null, source: string) => ({
      variable,
      flag,
      value,
      source,
    })
    assert.deepEqual(shown('MQ_NODE_ID'), row('MQ_NODE_ID', '--mq-node-id', 'n', 'flag'))
    assert.deepEqual(shown('TRILOG_LOG_LEVEL'), row('TRILOG_LOG_LEVEL', '--log-level', 'warn', 'environment'))
    assert.deepEqual(shown('OBJSTORE_REGION'), row('OBJSTORE_REGION', '--objstore-region', 'eu-west-1', 'file'))
    assert.deepEqual(shown('MQ_QUOTAS_FILE'), row('MQ_QUOTAS_FILE', '--mq-quotas-file', null, 'default'))
  })

  it('shows no secret of a URL, whether its setting is right or wrong', () => {
    const env = {
      LOGSTORE_QUERY_S3_ENDPOINT: 'https://me:hunter2@s3.example.com/x',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example.com/?token=hunter2',
      TRILOG_CONSOLE_BROKER_URL: 'http://me:hunter2@broker:7400',
      TRILOG_CLUSTER_SERVERS: 'me:hunter2@nats-1:4222, nats://me:hunter2@nats-2:4222',
      TRILOG_CLUSTER_BROKER_URL: 'http://10.0.0.1:7400/?key=hunter2',
    }
    const operand = 'https://me:hunter2@host/x'
    for (const output of ['text', 'json']) {
      const { text } = said(['config', operand, '--output', output], env)
      assert.match(text, /https:\/\/…@s3\.example\.com\/x/)
      assert.match(text, /https:\/\/collector\.example\.com\/\?token=…/)
      assert.match(text, /trilog config takes no https:\/\/…@host\/x/)
      assert.match(text, /…@nats-1:4222, nats:\/\/…@nats-2:4222/)
      const rule = 'must be an http or https URL, without credentials and query'
      for (const name of ['TRILOG_CONSOLE_BROKER_URL', 'TRILOG_CLUSTER_BROKER_URL'])
        assert.ok(text.includes(`${name} ${rule}`), name)
      assert.doesNotMatch(text, /hunter2/)
    }
  })

  it('shows what is wrong besides, and variables that are no settings', () => {
    const { text, exitCode } = said(['config'], { MQ_NODEID: 'x', MQ_SEGMENT_BYTES: '1' })
    assert.equal(exitCode, 2)
    assert.match(text, /\nwarning: MQ_NODEID is no setting\nproblem: MQ_SEGMENT_BYTES must be [^\n]+$/)
  })
})

describe('trilog check', () => {
  it('finds nothing wrong with directories that a start would make', () => {
    const base = `${temporaryDirectory()}/not/yet`
    const flags = ['logstore', 'objstore', 'mq'].flatMap((name) => [`--${name}-data-dir`, `${base}/${name}`])
    assert.deepEqual(said(['check', ...flags]), { text: 'valid', exitCode: 0 })
  })

  it('names every directory and file that cannot be used, and changes nothing', () => {
    const directory = temporaryDirectory()
    const file = `${directory}/file`
    const bad = `${directory}/bad.json`
    writeFileSync(file, '')
    writeFileSync(bad, '{"keys":"secret"}')
    const closed = `${directory}/closed`
    mkdirSync(closed)
    chmodSync(closed, 0o500)
    const env = {
      LOGSTORE_DATA_DIR: `${file}/logs`,
      LOGSTORE_TENANT_POLICY_FILE: bad,
      OBJSTORE_DATA_DIR: file,
      OBJSTORE_AUTH_MODE: 'sigv4',
      OBJSTORE_CREDENTIALS_FILE: bad,
      MQ_DATA_DIR: `${closed}/mq`,
      MQ_REPLICA_DIRS: file,
    }
    const { text, exitCode } = said(['check', '--output', 'json'], env)
    const { valid, problems } = JSON.parse(text) as Reported // the tests check the members
    assert.deepEqual([valid, exitCode], [false, 2])
    const names = problems.map((problem) => problem.split(' ')[0])
    // root may write in every directory
    const closedToUs = process.getuid?.() === 0 ? [] : ['MQ_DATA_DIR']
    assert.deepEqual(names, [
      'LOGSTORE_DATA_DIR',
      'LOGSTORE_TENANT_POLICY_FILE',
      'OBJSTORE_DATA_DIR',
      'OBJSTORE_CREDENTIALS_FILE',
      ...closedToUs,
      'MQ_REPLICA_DIRS',
    ])
    assert.doesNotMatch(text, /secret/)
  })

  it('names a directory whose FORMAT a start would refuse, unless a replica directory may have it', () => {
    const directory = temporaryDirectory()
    const of = (name: string): string => `${directory}/${name}`
    makeLog(of('logstore'), 'bundles')
    makeLog(of('objectstore'), 'segments')
    makeLog(of('broker'), 'segments')
    const env = { LOGSTORE_DATA_DIR: of('logstore'), OBJSTORE_DATA_DIR: of('objectstore'), MQ_DATA_DIR: of('broker') }
    assert.deepEqual(said(['check'], env), { text: 'valid', exitCode: 0 })
    writeFileSync(`${of('broker')}/FORMAT`, '{"format":"trilog-log"')
    const swapped = { ...env, LOGSTORE_DATA_DIR: of('objectstore'), OBJSTORE_DATA_DIR: of('logstore') }
    const { text, exitCode } = said(['check'], swapped)
    assert.equal(exitCode, 2)
    assert.deepEqual(
      text.split('\n').map((line) => line.split(':')[1]),
      [
        ` LOGSTORE_DATA_DIR ${of('objectstore')} holds a log, but not its bundles`,
        ` OBJSTORE_DATA_DIR ${of('logstore')} holds a log, but not its segments`,
        ` MQ_DATA_DIR ${of('broker')}/FORMAT is damaged or not of this program`,
        undefined,
      ],
    )
    assert.equal(said(['check'], { ...env, MQ_REPLICA_DIRS: of('replica') }).text, 'valid')
  })

  it('names a directory whose parent cannot be entered', () => {
    const directory = temporaryDirectory()
    const loop = `${directory}/loop` // not even root can follow it
    symlinkSync(loop, loop)
    const closed = `${directory}/closed`
    mkdirSync(`${closed}/inside`, { recursive: true })
    chmodSync(closed, 0)
    try {
      const env = { LOGSTORE_DATA_DIR: `${loop}/logs`, OBJSTORE_DATA_DIR: `${closed}/inside/objects` }
      const { text, exitCode } = said(['check', '--mq-data-dir', `${directory}/mq`], env)
      assert.equal(exitCode, 2)
      const ofLoop = `problem: LOGSTORE_DATA_DIR ${loop}/logs: this user cannot reach ${loop}/logs (ELOOP)`
      const ofClosed = `problem: OBJSTORE_DATA_DIR ${closed}/inside/objects: this user cannot reach ${closed}/inside/objects (EACCES)`
      assert.equal(text, [ofLoop, ...(process.getuid?.() === 0 ? [] : [ofClosed]), 'invalid'].join('\n'))
    } finally {
      chmodSync(closed, 0o700)
    }
  })

  it('tells every mistake of settings, directories and files at once, whatever hides behind another', () => {
    const directory = temporaryDirectory()
    const file = `${directory}/file.json`
    writeFileSync(file, '{"keys":[{"access_key_id":"a b","secret_access_key":"hush","principal":7,"permissions":[]}]}')
    const ofFile = fileOf('NOPE=1\nMQ_NODE_ID=a\nMQ_NODE_ID=b\nLOGSTORE_COMPACTION=maybe\nno line')
    const env = {
      TRILOG_CONFIG: ofFile,
      TRILOG_LOG_LEVEL: 'loud',
      LOGSTORE_BIND_ADDRESS: '10.0.0.1:1',
      LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '4317',
      LOGSTORE_DATA_DIR: `${file}/logs`,
      LOGSTORE_WAL_WRITE_QUORUM: '2',
      LOGSTORE_TLS_CERT_FILE: '/nowhere/cert',
      LOGSTORE_TLS_KEY_FILE: file,
      LOGSTORE_QUERY_STORE: 's3',
      LOGSTORE_QUERY_S3_PREFIX: '/x',
      OBJSTORE_AUTH_MODE: 'sigv4',
      OBJSTORE_CREDENTIALS_FILE: file,
      OBJSTORE_MAX_PUT_BYTES: 'x',
      OBJSTORE_DATA_DIR: file,
      MQ_AUTH_MODE: 'external',
      MQ_TRUSTED_PROXY: 'proxy',
      MQ_QUOTAS_FILE: '/nowhere/quotas',
      MQ_REPLICA_DIRS: `${directory}/mq/replica,${file}`,
      MQ_WRITE_QUORUM: '0',
      MQ_DATA_DIR: `${directory}/mq`,
      TRILOG_CONSOLE_BIND: '0.0.0.0:1',
      TRILOG_CONSOLE_BROKER_URL: 'broker',
      TRILOG_CLUSTER_SERVERS: 'a:1',
      TRILOG_CLUSTER_ACK: 'none',
      TRILOG_CLUSTER_BIND: '10.0.0.1:2',
    }
    const { text, exitCode } = said(['check', '--nope', '--mq-segment-bytes=1', '--output', 'json'], env)
    const { problems } = JSON.parse(text) as Reported // the tests check the members
    assert.equal(exitCode, 2)
    assert.doesNotMatch(text, /hush/)
    assert.deepEqual(
      problems.map((problem) => problem.split(' ')[0]),
      [
        '--nope',
        'TRILOG_CONFIG',
        'TRILOG_CONFIG',
        'TRILOG_CONFIG',
        'TRILOG_LOG_LEVEL',
        'LOGSTORE_OTLP_GRPC_BIND_ADDRESS',
        'LOGSTORE_COMPACTION',
        'LOGSTORE_BIND_ADDRESS',
        'LOGSTORE_WAL_WRITE_QUORUM',
        'LOGSTORE_TLS_CERT_FILE',
        'LOGSTORE_TLS_KEY_FILE',
        'LOGSTORE_QUERY_S3_BUCKET',
        'LOGSTORE_QUERY_S3_PREFIX',
        'OBJSTORE_MAX_PUT_BYTES',
        'MQ_TRUSTED_PROXY',
        'MQ_WRITE_QUORUM',
        'MQ_SEGMENT_BYTES',
        'MQ_QUOTAS_FILE',
        'MQ_IDENTITY_HEADER',
        'TRILOG_CONSOLE_BROKER_URL',
        'TRILOG_CLUSTER_ACK',
        'TRILOG_CLUSTER_NAME',
        'TRILOG_NODE_ID',
        'TRILOG_CLUSTER_SECRET',
        'TRILOG_CLUSTER_BIND',
        'MQ_REPLICA_DIRS',
        'LOGSTORE_QUERY_STORE',
        'LOGSTORE_DATA_DIR',
        'OBJSTORE_DATA_DIR',
        'OBJSTORE_CREDENTIALS_FILE',
        'MQ_REPLICA_DIRS',
      ],
    )
    const ofCredentials = problems.find((problem) => problem.startsWith('OBJSTORE_CREDENTIALS_FILE'))
    assert.match(ofCredentials ?? '', /names a file with mistakes: keys\.0\.access_key_id .+, and keys\.0\.principal /)
  })

  it('finds services that want the same address or the same directory', () => {
    const data = `${temporaryDirectory()}/data`
    const env = {
      LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:4318',
      LOGSTORE_DATA_DIR: data,
      OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
      MQ_HTTP_BIND: '127.0.0.1:0',
      MQ_DATA_DIR: data,
    }
    assert.deepEqual(said(['check'], env).text.split('\n'), [
      'problem: LOGSTORE_OTLP_GRPC_BIND_ADDRESS must not be 127.0.0.1:4318, because LOGSTORE_BIND_ADDRESS names it already',
      `problem: MQ_DATA_DIR must not be ${data}, because LOGSTORE_DATA_DIR names it already`,
      'invalid',
    ])
    assert.equal(said(['check', '--services', 'broker'], env).text, 'valid')
  })

  it('finds a console or a cluster that wants the address of a service', () => {
    const cluster = {
      TRILOG_CLUSTER_SERVERS: '127.0.0.1:4222',
      TRILOG_CLUSTER_NAME: 'trial',
      TRILOG_CLUSTER_SECRET: '0123456789abcdef',
      TRILOG_NODE_ID: 'a',
      TRILOG_CLUSTER_BIND: '127.0.0.1:7400',
    }
    const alone = { TRILOG_SERVICES: 'broker', MQ_DATA_DIR: `${temporaryDirectory()}/data` }
    const taken = 'must not be 127.0.0.1:7400, because MQ_HTTP_BIND names it already'
    assert.deepEqual(
      said(['check'], { ...alone, ...cluster, TRILOG_CONSOLE_BIND: '127.0.0.1:7400' }).text.split('\n'),
      [`problem: TRILOG_CLUSTER_BIND ${taken}`, `problem: TRILOG_CONSOLE_BIND ${taken}`, 'invalid'],
    )
    // A start goes on without the console, whose default address the broker takes here.
    assert.equal(said(['check'], { ...alone, MQ_HTTP_BIND: '127.0.0.1:7480' }).text, 'valid')
    assert.equal(said(['check'], { ...alone, TRILOG_CONSOLE_BIND: 'off' }).text, 'valid')
  })

  it('judges the services that are known beside a name that is none', () => {
    const env = { TRILOG_SERVICES: 'broker, cache', MQ_SEGMENT_BYTES: '1', MQ_DATA_DIR: '/dev/null' }
    assert.deepEqual(
      said(['check'], env)
        .text.split('\n')
        .map((line) => line.split(' ')[1]),
      ['TRILOG_SERVICES', 'MQ_SEGMENT_BYTES', 'MQ_DATA_DIR', undefined],
    )
  })

  it('judges the console by services whose other settings have mistakes', () => {
    const env = { TRILOG_CONSOLE_BIND: '0.0.0.0:1', OBJSTORE_MAX_PUT_BYTES: 'x', TRILOG_SERVICES: 'objectstore' }
    assert.match(said(['check'], env).text, /\nproblem: TRILOG_CONSOLE_BIND must be .+\(objectstore\)/)
  })

  it('tells mistakes of settings with exit code 2', () => {
    const { text, exitCode } = said(['check'], { MQ_SEGMENT_BYTES: '1', OBJSTORE_MAX_PUT_BYTES: 'x' })
    assert.equal(exitCode, 2)
    assert.match(text, /^problem: OBJSTORE_MAX_PUT_BYTES [^\n]+\nproblem: MQ_SEGMENT_BYTES [^\n]+\ninvalid$/)
  })
})

describe('trilog', () => {
  it('shows its help, also when it is told nothing, which is a mistake', () => {
    assert.equal(said(['--help']).exitCode, 0)
    assert.deepEqual(said([]), { ...said(['start', '--help']), exitCode: 2 })
  })

  it('shows every setting in its help: variable, flag, default and meaning', () => {
    const lines = said(['--help']).text.split('\n')
    for (const [name, { default: fallback, description }] of Object.entries(allSettings)) {
      const at = lines.findIndex((line) => line.startsWith(`  ${name} `))
      const shown = fallback === undefined ? 'unset' : fallback === '' ? 'empty' : fallback
      assert.deepEqual(lines[at]?.trim().split(/ +/), [name, flagOf(name), ...shown.split(' ')], name)
      assert.equal(lines[at + 1]?.trim(), description.replaceAll('`', ''), name)
    }
  })

  it('answers a terminal in colour, in the same columns, and never in JSON', () => {
    const release = { version: '1.2.3', node: '22.18.0' }
    const env = { MQ_SEGMENT_BYTES: '1', MQ_NOPE: '1' }
    for (const args of [
      ['config'],
      ['check'],
      ['--help'],
      ['config', '--output', 'json'],
      ['check', '--output', 'json'],
    ]) {
      const answer = trilogCommand(args, env, release, styleFor({ isTTY: true }, {}))
      assert(answer.kind === 'check' || answer.kind === 'say')
      const { text } = answer.kind === 'check' ? answer.answer(placeProblems(answer.settings)) : answer
      assert.equal(text !== stripVTControlCharacters(text), !args.includes('json'), args.join(' '))
      assert.equal(stripVTControlCharacters(text), said(args, env).text)
    }
  })

  it('shows its release', () => {
    assert.equal(said(['--version']).text, 'trilog 1.2.3\nnode 22.18.0')
    assert.equal(said(['--version', '--output', 'json']).text, '{"name":"trilog","version":"1.2.3","node":"22.18.0"}')
  })

  it('refuses what it does not know', () => {
    assert.deepEqual(mistakesOf(['stop']), ['trilog has no command stop: see trilog --help'])
    assert.deepEqual(mistakesOf(['start', '--output', 'json']), [
      '--output goes with check, config, health or --version',
    ])
    const { text, exitCode } = said(['check', '--output', 'xml', '--nope'])
    assert.equal(exitCode, 2)
    assert.match(text, /^problem: --nope is no flag of trilog: .*\nproblem: --output must be text or json\ninvalid$/)
    assert.deepEqual(mistakesOf(['completion', 'tcsh']), ['trilog completion needs one of: bash, zsh, fish'])
  })

  it('completes commands and flags', () => {
    for (const shell of ['bash', 'zsh', 'fish']) {
      const { text } = said(['completion', shell])
      for (const word of ['start', 'check', 'config', 'health', '--logstore-data-dir', '--services'])
        assert.ok(text.includes(word))
    }
  })
})
