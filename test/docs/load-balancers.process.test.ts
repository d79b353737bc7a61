/** The examples of docs/cluster.md for HAProxy and nginx, before brokers in a cluster: clients reach the leader and, after a kill, the next one. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { BrokerServer } from '../support/broker.ts'
import { TestCluster, waitUntilCaughtUp } from '../support/cluster.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { findNatsServer, freePorts } from '../support/nats-server.ts'
import { eventually } from '../support/waiting.ts'

const PUBLISHES = 20
const page = readFileSync('docs/cluster.md', 'utf8')

interface Balancer {
  readonly name: string
  /** First words of the example. */
  readonly begins: string
  /** A whole configuration with the example. @param directory for the files that the balancer writes */
  readonly around: (example: string, port: number, directory: string) => string
  readonly command: (file: string) => readonly string[]
}

const BALANCERS: readonly Balancer[] = [
  {
    name: 'haproxy',
    begins: 'backend broker',
    around: (example, port) => `defaults
  mode http
  timeout connect 1s
  timeout client 30s
  timeout server 30s
frontend clients
  bind 127.0.0.1:${port}
  default_backend broker
${example}`,
    command: (file) => ['haproxy', '-db', '-f', file],
  },
  {
    name: 'nginx',
    begins: 'upstream broker',
    around: (example, port, directory) => `daemon off;
master_process off;
pid ${directory}/nginx.pid;
error_log ${directory}/error.log;
events {}
http {
  access_log off;
${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `  ${kind}_temp_path ${directory}/${kind};`).join('\n')}
${example.replace('listen 7400;', `listen 127.0.0.1:${port};`)}
}`,
    command: (file) => ['nginx', '-c', file],
  },
]

const exampleOf = (begins: string): string => {
  const [example] = new RegExp(`^${begins}[^]*?(?=^\`\`\`)`, 'm').exec(page) ?? []
  assert.ok(example, begins)
  return example
}

for (const { name, begins, around, command } of BALANCERS) {
  const missing = ['nats-server', name].filter((program) =>
    program === name ? spawnSync(name, ['-v']).error !== undefined : findNatsServer() === null,
  )
  const skip = missing.length > 0
  describe(
    `${name} before brokers of a cluster${skip ? ` (skipped: no ${missing.join(', no ')})` : ''}`,
    { skip },
    () => {
      const cluster = new TestCluster<BrokerServer>({ servers: 1 })
      let url = ''
      let balancer: ChildProcess | null = null

      before(async () => {
        const [a, b] = await Promise.all(
          ['a', 'b'].map((id) => cluster.started(BrokerServer.start({ env: cluster.nodeOf(id) }))),
        )
        const leader = await cluster.leader()
        assert.equal((await leader.request('PUT', '/v1/streams/orders', '{}')).status, 201)
        await waitUntilCaughtUp(leader, leader === a ? 'b' : 'a')
        const [port, nobody] = await freePorts(2)
        const addresses = [a!.readyLine.http, b!.readyLine.http, `127.0.0.1:${nobody}`]
        const example = exampleOf(begins).replaceAll(/10\.0\.0\.([123]):7400/g, (_, n) => addresses[Number(n) - 1]!)
        const directory = temporaryDirectory()
        writeFileSync(`${directory}/configuration`, around(example, port!, directory))
        const [program, ...args] = command(`${directory}/configuration`)
        balancer = spawn(program!, args, { stdio: 'ignore' })
        balancer.unref()
        url = `http://127.0.0.1:${port}`
      })
      after(() => balancer?.kill('SIGKILL'))

      const publish = (): Promise<number> =>
        fetch(`${url}/v1/streams/orders/records`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: '{"message_id":"m","payload":"p"}',
        }).then(
          ({ status }) => status,
          () => 0,
        )

      const allAreStored = async (): Promise<boolean> => {
        for (let n = 0; n < PUBLISHES; n += 1) {
          if ((await publish()) !== 201) return false
        }
        return true
      }

      it('has every request answered by the leader, and by the next one when it is killed', async () => {
        await eventually(allAreStored)
        await (await cluster.leader()).kill()
        await eventually(allAreStored)
      })
    },
  )
}
