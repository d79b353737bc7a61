/** `mq`, `trilog` and `npm start` as users run them. Commands that end by themselves share a process, unless they need their own. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { flagOf } from '../../src/config/all-settings.ts'
import { brokerSettings } from '../../src/config/broker.ts'
import { clusterSettings } from '../../src/config/cluster.ts'
import { consoleSettings } from '../../src/config/console.ts'
import { logStoreSettings } from '../../src/config/logstore.ts'
import { objectStoreSettings } from '../../src/config/objectstore.ts'
import { processSettings, startSettings } from '../../src/config/process.ts'
import type { Setting } from '../../src/config/settings.ts'
import { runCommand } from '../support/command.ts'
import { entryFile } from '../support/entry.ts'
import { killAtEnd } from '../support/left-behind.ts'
import { environmentOf } from '../support/process.ts'
import type { Ending, Environment } from '../support/process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const { version } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as { version: string }
/** Entry points of a clone, which run the sources. */
const MQ = `${root}/src/cli/mq.js`
const TRILOG = `${root}/src/cli/trilog.js`
const START = `${root}/src/start.js`
/** Entry points for tests of what sources and built programs have in common. */
const TESTED_MQ = entryFile('src/cli/mq.js')
const TESTED_START = entryFile('src/start.js')
const TESTED_TRILOG = entryFile('src/cli/trilog.js')

const directory = mkdtempSync(`${tmpdir()}/trilog-mq-`)
after(() => rmSync(directory, { recursive: true }))

function start(
  command: string,
  args: readonly string[],
  { env = {}, cwd = directory }: { env?: Environment; cwd?: string } = {},
) {
  return killAtEnd(spawn(command, args, { cwd, env: environmentOf(env), stdio: ['ignore', 'pipe', 'pipe'] }))
}

async function run(command: string, args: readonly string[], options?: Parameters<typeof start>[2]): Promise<Ending> {
  const child = start(command, args, options)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code: code as number, stdout, stderr } // no signal is sent
}

const mq = (args: readonly string[], env: Environment = {}): Promise<Ending> =>
  runCommand({ entry: 'src/cli/mq.js', args, env })

const trilog = (args: readonly string[], env: Environment = {}): Promise<Ending> =>
  runCommand({ entry: 'src/cli/trilog.js', args, env })

const npmStart = (...args: readonly string[]): Promise<Ending> => runCommand({ entry: 'src/start.js', args, env: {} })

/** The content of its ready lines. */
async function ready(child: ReturnType<typeof start>, services: number): Promise<Record<string, unknown>[]> {
  const shown: Record<string, unknown>[] = []
  for await (const line of createInterface(child.stdout)) {
    assert.match(line, /^ready \{/)
    shown.push(JSON.parse(line.slice('ready '.length)) as Record<string, unknown>)
    if (shown.length === services) return shown
  }
  throw new Error(`it ended before it was ready: ${await text(child.stderr)}`)
}

async function stop(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'close'), [0, null])
}

describe('the command mq', { concurrency: 2 }, () => {
  it('shows its release and ends', async () => {
    const shown = `mq ${version}\nnode ${process.versions.node}\n`
    assert.deepEqual(await mq(['--version']), { code: 0, stdout: shown, stderr: '' })
  })

  it('validates its settings without touching the data directory', async () => {
    const { code, stdout, stderr } = await mq([
      '--validate-config',
      '--output',
      'json',
      '--data-dir',
      `${directory}/data`,
    ])
    assert.deepEqual([code, stderr], [0, ''])
    assert.equal((JSON.parse(stdout) as { valid: boolean }).valid, true)
    assert.equal(existsSync(`${directory}/data`), false)
  })

  it('answers an invalid validation with exit code 2 and the report', async () => {
    const { code, stdout, stderr } = await mq(['--validate-config'], { MQ_HTTP_BIND: '0.0.0.0:7400' })
    assert.deepEqual([code, stderr], [2, ''])
    assert.match(stdout, /^problem: MQ_HTTP_BIND must be a loopback address.*\ninvalid\n$/m)
  })

  it('refuses what it cannot do with exit code 2 and a line on stderr', async () => {
    assert.deepEqual(await mq(['--fast']), { code: 2, stdout: '', stderr: '--fast is no flag of mq: see mq --help\n' })
  })

  it('runs a node until SIGTERM; what keeps another one from starting is named by its flag or variable', async () => {
    const flags = ['--http-bind', '127.0.0.1:0', '--data-dir', 'node', '--node-id', 'eu-1']
    const node = start(process.execPath, [MQ, ...flags])
    const [line] = await ready(node, 1)
    const http = String(line!['http'])
    assert.deepEqual(line, { service: 'broker', http, grpc: null, pid: node.pid })
    const health = await (await fetch(`http://${http}/health`)).json()
    assert.equal((health as { node_id: string }).node_id, 'eu-1')

    const [sameDirectory, samePort] = await Promise.all([
      mq(['--data-dir', `${directory}/node`], { MQ_HTTP_BIND: '127.0.0.1:0' }),
      mq(['--data-dir', `${directory}/other`], { MQ_HTTP_BIND: http }),
    ])
    assert.equal(sameDirectory.code, 2)
    assert.match(sameDirectory.stderr, /^--data-dir: .* in use [^\n]*\n$/)
    assert.equal(samePort.code, 2)
    assert.match(samePort.stderr, /^MQ_HTTP_BIND: .* taken\n$/)
    await stop(node)
  })

  it('is found by npx in a clone, from any folder of it', async () => {
    const env = {
      npm_config_cache: `${directory}/npm`,
      npm_config_offline: 'true',
      npm_config_update_notifier: 'false',
    }
    const { code, stdout, stderr } = await run('npx', ['mq', '--version'], { env, cwd: `${root}/src` })
    assert.equal(code, 0, stderr)
    assert.match(stdout, new RegExp(`^mq ${version}\nnode (22|24|26)\\.`))
  })
})

const FREE_PORTS = {
  LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
  OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
  MQ_HTTP_BIND: '127.0.0.1:0',
}

describe('npm start', () => {
  it('shows what it takes, and ends', async () => {
    const { code, stdout, stderr } = await npmStart('--help')
    assert.deepEqual([code, stderr], [0, ''])
    for (const settings of [
      startSettings,
      processSettings,
      clusterSettings,
      consoleSettings,
      logStoreSettings,
      objectStoreSettings,
      brokerSettings,
    ]) {
      for (const [name, { default: fallback, description }] of Object.entries<Setting<unknown>>(settings)) {
        const shown = fallback === undefined ? 'unset' : fallback === '' ? 'empty' : fallback
        const at = stdout.split('\n').findIndex((line) => new RegExp(`^ +${name} `).test(line))
        const [head = '', meaning] = stdout.split('\n').slice(at, at + 2)
        assert.deepEqual(head.trim().split(/ +/), [name, flagOf(name), shown])
        assert.equal(meaning?.trim(), description.replaceAll('`', ''))
      }
    }
  })

  it('shows its release, and ends', async () => {
    const shown = `trilog ${version}\nnode ${process.versions.node}\n`
    assert.deepEqual(await npmStart('--version'), { code: 0, stdout: shown, stderr: '' })
  })

  it('runs every service in one process', async () => {
    const all = start(process.execPath, [START], { env: FREE_PORTS })
    const lines = await ready(all, 3)
    assert.deepEqual(
      lines.map(({ service, pid }) => [service, pid]).sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
      [
        ['broker', all.pid],
        ['logstore', all.pid],
        ['objectstore', all.pid],
      ],
      'in the order in which they are ready',
    )
    await stop(all)
    assert.deepEqual(readdirSync(`${directory}/data`).sort(), ['broker', 'logstore', 'objectstore'])
  })
})

describe('the command trilog', { concurrency: 2 }, () => {
  it('starts a service with flags, below them the environment, below that a file', async () => {
    const file = `${directory}/settings`
    writeFileSync(file, 'OBJSTORE_BIND_ADDRESS=127.0.0.1:0\nOBJSTORE_DATA_DIR=./from-file\nTRILOG_LOG_LEVEL=fatal\n')
    const args = [TRILOG, 'start', '--services', 'objectstore', '--objstore-region', 'eu-west-1']
    const child = start(process.execPath, args, { env: { TRILOG_CONFIG: file, OBJSTORE_DATA_DIR: './from-env' } })
    const [line] = await ready(child, 1)
    assert.equal(line?.['service'], 'objectstore')
    await stop(child)
    assert.ok(existsSync(`${directory}/from-env`))
    assert.ok(!existsSync(`${directory}/from-file`))
  })

  it('checks without making anything', async () => {
    const env = {
      LOGSTORE_DATA_DIR: `${directory}/unmade/logs`,
      OBJSTORE_DATA_DIR: `${directory}/unmade/objects`,
      MQ_DATA_DIR: `${directory}/unmade/broker`,
    }
    assert.deepEqual(await trilog(['check'], env), { code: 0, stdout: 'valid\n', stderr: '' })
    assert.ok(!existsSync(`${directory}/unmade`))
    const { code, stdout, stderr } = await trilog(['start', '--nope'])
    assert.deepEqual([code, stdout, stderr], [2, '', '--nope is no flag of trilog: see trilog --help\n'])
  })
})

describe('output that cannot be written', () => {
  const full = openSync('/dev/full', 'w')
  after(() => closeSync(full))
  const logstore = ['--services', 'logstore']
  const env = environmentOf({ ...FREE_PORTS, TRILOG_LOG_LEVEL: 'debug' }) // logs when the decode lane is ready

  it('is lost and ends nothing: a log line on a full disk', async () => {
    const node = killAtEnd(
      spawn(process.execPath, [TESTED_START, ...logstore], { cwd: directory, env, stdio: ['ignore', 'pipe', full] }),
    )
    for await (const line of createInterface(node.stdout!)) {
      const { http } = JSON.parse(line.slice('ready '.length)) as { http: string }
      assert.equal((await fetch(`http://${http}/health`)).status, 200)
      break
    }
    await stop(node)
  })

  it('is lost and ends nothing: the ready line on a full disk', async () => {
    const node = killAtEnd(
      spawn(process.execPath, [TESTED_START, ...logstore], { cwd: directory, env, stdio: ['ignore', full, 'pipe'] }),
    )
    for await (const line of createInterface(node.stderr!)) if (line.includes('decode lane ready')) break
    await stop(node)
  })

  it('is lost and ends nothing: ready lines after the first one, which was all that their reader wanted', async () => {
    const all = start(process.execPath, [TESTED_START], { env: FREE_PORTS })
    await once(all.stdout, 'data')
    all.stdout.destroy()
    await stop(all)
  })
})

describe('the answer of a command', { concurrency: 2 }, () => {
  const full = openSync('/dev/full', 'w')
  after(() => closeSync(full))
  const data = `${directory}/of-answers`
  const answering = [
    [TESTED_TRILOG, '--help'],
    [TESTED_TRILOG, 'check'],
    [TESTED_TRILOG, 'config', '--output', 'json'],
    [TESTED_TRILOG, 'inspect', data],
    [TESTED_TRILOG, 'cluster', '--help'],
    [TESTED_MQ, '--version'],
    [TESTED_MQ, '--validate-config'],
    [TESTED_MQ, 'cli', '--data-dir', data, 'lease', 'list', 's', 'g'],
  ]
  before(async () => assert.equal((await mq(['cli', '--data-dir', data, 'stream', 'create', 's'])).code, 0))

  const ending = async (args: readonly string[], stdout: number | 'pipe'): Promise<readonly [unknown, string]> => {
    const child = killAtEnd(
      spawn(process.execPath, args, { cwd: directory, env: environmentOf({}), stdio: ['ignore', stdout, 'pipe'] }),
    )
    child.stdout?.destroy() // its reader leaves before the command has begun
    const [stderr, [code]] = await Promise.all([text(child.stderr!), once(child, 'close')])
    return [code, stderr]
  }

  for (const args of answering) {
    const shown = args.slice(1).join(' ').replace(data, 'DIR')
    it(`on a full disk is a failure that one line tells: ${shown}`, async () => {
      const said = 'error: the answer cannot be written: ENOSPC: no space left on device, write\n'
      assert.deepEqual(await ending(args, full), [1, said])
    })

    it(`without a reader is no failure: ${shown}`, async () => {
      assert.deepEqual(await ending(args, 'pipe'), [0, ''])
    })
  }
})

describe('a Node that is told to do without what is needed', { concurrency: 2 }, () => {
  const node = async (option: string, env: Environment = {}): Promise<string> => {
    const settings = { ...FREE_PORTS, NODE_OPTIONS: option, ...env }
    const { code, stdout, stderr } = await run(process.execPath, [TESTED_MQ], { env: settings })
    assert.deepEqual([code, stdout], [2, ''], stderr)
    return stderr.replace(/^Warning: .*\n/, '') // V8 warns of options that do not fit together
  }

  it('is refused in one line that says why the start failed', async () => {
    assert.match(await node('--no-addons'), /^the start failed: [^\n]*addons? [^\n]*\n$/)
    assert.match(await node('--jitless'), /^the start failed: [^\n]*WebAssembly [^\n]*\n$/)
  })

  it('shows where when it is to log that much', async () => {
    assert.match(await node('--no-addons', { TRILOG_LOG_LEVEL: 'debug' }), /^the start failed: .*\n.*Error: .*\n +at /)
  })

  it('is refused before a service is ready, not by the first answer', async () => {
    const option = '--disallow-code-generation-from-strings'
    assert.match(await node(option), new RegExp(`^[^\\n]*without ${option}\\n$`))
  })
})

describe('a Node that is too old', () => {
  it('is told so in one line, by mq and by npm start', async () => {
    const pretend = `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'22.17.9'}})`
    for (const script of [MQ, START]) {
      const { code, stdout, stderr } = await run(process.execPath, ['--import', pretend, script, '--version'])
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /^trilog needs Node 22\.18 or newer, this is 22\.17\.9: [^\n]*\n$/)
    }
  })
})
