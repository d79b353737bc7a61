/** The steps of docs/cluster.md, run like a reader would: three NATS servers, three brokers, and a kill of the leader. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { it } from 'node:test'
import { clusterFlags } from '../../src/cli/cluster-command.ts'
import { parseConfigFile } from '../../src/config/config-file.ts'
import { loadConfig } from '../../src/config/config.ts'
import { SettingProblems } from '../../src/config/settings.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { entryFile } from '../support/entry.ts'
import { findNatsServer, natsOrSkip } from '../support/nats-server.ts'
import { blocksOf, document } from './markdown.ts'
import { shell } from './tour.ts'

const page = document('docs/cluster.md')
const BLOCK_END = '-- end of block --'
const PORTS = ['7400', '7401', '7402', '7490', '7491', '7492', '4221', '4222', '4223', '6221', '6222', '6223']

async function freePorts(count: number): Promise<readonly number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, '127.0.0.1')
      await once(server, 'listening')
      return server
    }),
  )
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map(async (server) => once(server.close(), 'close')))
  return ports
}

/** The script with free ports, also where the page leaves a port at its default or makes it from a number. */
async function onFreePorts(script: string): Promise<string> {
  const free = await freePorts(PORTS.length)
  const portOf = (port: string): string => String(free[PORTS.indexOf(port)])
  const nth = (...ports: readonly string[]): string => `$(echo ${ports.map(portOf).join(' ')} | cut -d' ' -f$n)`
  return `export MQ_HTTP_BIND=127.0.0.1:${portOf('7400')}\n${script}`
    .replaceAll('422$n', nth('4221', '4222', '4223'))
    .replaceAll('622$n', nth('6221', '6222', '6223'))
    .replace('TRILOG_CONSOLE_BIND=off', `TRILOG_CONSOLE_BIND=off\nTRILOG_CLUSTER_BIND=127.0.0.1:${portOf('7490')}`)
    .replaceAll(/\b(74|42|62)\d\d\b/g, (port) => (PORTS.includes(port) ? portOf(port) : port))
}

const { name, skip } = natsOrSkip('the tour of the cluster runs block by block, and shows what it says')

it(name, { skip }, async () => {
  const directory = temporaryDirectory()
  const bin = `${directory}/bin`
  mkdirSync(bin)
  const program = (called: string, text: string): void => {
    writeFileSync(`${bin}/${called}`, `#!/bin/sh\n${text}\n`)
    chmodSync(`${bin}/${called}`, 0o755)
  }
  program('npx', `shift; exec '${process.execPath}' '${entryFile('src/cli/trilog.js')}' "$@"`)
  const found = findNatsServer()!
  if (found.includes('/')) program('nats-server', `exec '${found}' "$@"`) // otherwise it is on the PATH
  const blocks = blocksOf(page, 'tour')
  const steps = blocks.filter(({ language }) => language === 'sh')
  const script = steps.map((step) => step.text).join(`\necho '${BLOCK_END}'\n`)
  const end = 'jobs -p > jobs; while read -r pid; do kill -9 $pid || true; done < jobs 2> /dev/null' // $(jobs -p) would be empty
  const whole = `PATH='${bin}':"$PATH"\ntrap '${end}' EXIT\n${await onFreePorts(script)}\n`
  const outputs = (await shell(whole, directory)).split(`${BLOCK_END}\n`)
  assert.equal(outputs.length, steps.length)
  for (const [number, step] of steps.entries()) {
    const shown = blocks[blocks.indexOf(step) + 1]
    const expected = shown?.language === 'text' ? shown.text : ''
    assert.match(
      plain(outputs[number]!),
      new RegExp(`^${plain(expected).split('…').map(escaped).join('[^\\n]*')}$`),
      step.text,
    )
  }
})

const escaped = (part: string): string => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** Text without what differs between runs: padding and ports. */
const plain = (shown: string): string =>
  shown
    .trim()
    .replaceAll(/ +/g, ' ')
    .replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:PORT')

it('the flags that the page names are those of the commands', () => {
  const known = new Set([...clusterFlags(), '--services', '--console-bind', '--mq-data-dir', '--mq-http-bind'])
  const named = page.match(/(?<![\w-])--[a-z][a-z-]+/g)!
  assert.deepEqual(
    [...new Set(named)].filter((flag) => !known.has(flag)),
    [],
  )
})

it('the settings of one of three machines are right, for all three services', () => {
  const [settings] = blocksOf(page, 'machine')
  const directory = temporaryDirectory()
  const authority = new Authority('an authority')
  const tls = new TlsFilesOnDisk()
  tls.write(authority.certify([['CN', '10.0.0.1']]), authority)
  const [keys] = blocksOf(document('docs/broker.md'), 'brokerkeys')
  writeFileSync(`${directory}/broker-keys.json`, keys!.text)
  const text = settings!.text
    .replace('/etc/trilog/node.pem', tls.cert)
    .replace('/etc/trilog/node.key', tls.key)
    .replace('/etc/trilog/ca.pem', tls.clientCa)
    .replaceAll('/etc/trilog/', `${directory}/`)
  const problems = new SettingProblems()
  const { cluster, services } = loadConfig(parseConfigFile(text, problems), problems)
  assert.deepEqual(cluster?.urls, {
    logstore: 'http://10.0.0.1:4318',
    objectstore: 'http://10.0.0.1:9000',
    broker: 'http://10.0.0.1:7400',
  })
  assert.deepEqual(
    Object.values(services).map((service) => service?.http.host),
    ['10.0.0.1', '10.0.0.1', '10.0.0.1'],
  )
})
