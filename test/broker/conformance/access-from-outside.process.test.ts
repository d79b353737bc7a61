/** Credentials at a real node as outsiders meet them: through a proxy, beside many wrong ones, and from another tenant. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import type { BrokerHttpParts } from '../../../src/broker/api/parts.ts'
import { brokerRoutes } from '../../../src/broker/api/routes.ts'
import { ClaimReply } from '../../../src/broker/wire/queue-answers.ts'
import { PERMISSIONS } from '../../../src/broker/grants.ts'
import { BrokerServer } from '../../support/broker.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { eventually } from '../../support/waiting.ts'

const ALL = PERMISSIONS.map((permission) => ({ permission }))
const file = `${temporaryDirectory()}/keys.json`
const tenants = ['acme', 'globex']
const keys = tenants.map((tenant) => ({
  key_sha256: hash('sha256', `${tenant}-key`),
  tenant,
  principal: `${tenant}-app`,
  grants: ALL,
}))
writeFileSync(file, JSON.stringify({ keys }))
const broker = await BrokerServer.start({ flags: ['--auth-mode', 'api-key', '--credentials-file', file] })
after(() => broker.kill())

const as = (tenant: string, method: string, path: string, body: object | null = null) =>
  broker.request(method, path, body, { authorization: `Bearer ${tenant}-key` })

/** All routes whose path names a stream, except the one that creates it. */
const ROUTES_OF_A_STREAM = brokerRoutes({ maxBodyBytes: 1, metrics: null } as BrokerHttpParts).filter(
  ([method, path]) => path.includes('/:stream') && !(method === 'PUT' && path.endsWith('/:stream')),
)

/** A body that the route takes, so that only the path can be the reason of a refusal. */
function bodyOf(method: string, route: string, { delivery }: Readonly<Record<string, string>>): object | null {
  if (method === 'GET' || method === 'DELETE') return null
  const record = { message_id: 'm', payload: 'p' }
  const bodies: Readonly<Record<string, object>> = {
    ':stream': { default_durability: 'memory' },
    purge: { offset: 1 },
    redrive: {},
    records: record,
    batch: { records: [record] },
    seek: { offset: 0, reason: 'r' },
    ':cursor': { offset: 2 },
    rewind: { offset: 0, reason: 'r' },
    claims: {},
    ack: {},
    'batch-ack': { delivery_ids: [delivery] },
    nack: { reason: 'r', requeue: true },
    renew: { extend_by_millis: 1000 },
    retry: { reason: 'r', delay_millis: 0 },
    'dead-letter': { dead_letter_stream: 'globex-dead', reason: 'r' },
    acknowledge: {},
  }
  const last = route.slice(route.lastIndexOf('/') + 1)
  return bodies[last] ?? assert.fail(`no body is known for ${method} ${route}`)
}

describe('another tenant', () => {
  it('cannot use the ids of streams, groups, deliveries and cursors, and reads none of the events', async () => {
    await as('acme', 'PUT', '/v1/streams/secret')
    await as('globex', 'PUT', '/v1/streams/globex-dead')
    for (const message_id of ['a', 'b']) {
      await as('acme', 'POST', '/v1/streams/secret/records', { message_id, payload: 'p' })
    }
    const group = '/v1/streams/secret/consumer-groups/workers'
    const claim = (await as('acme', 'POST', `${group}/claims`, { lease_timeout_millis: 3_600_000 })).succeeded(
      ClaimReply,
    )
    const [delivery] = claim.deliveries
    const ids: Readonly<Record<string, string>> = {
      stream: 'secret',
      group: 'workers',
      cursor: 'place',
      subscription: claim.subscription_id,
      delivery: delivery!.delivery_id,
      incident: 'inc-000000000000',
    }
    await as('acme', 'PUT', `${group}/cursors/place`, { offset: 1 })
    const asked = ROUTES_OF_A_STREAM.map(([method, route]) => {
      const path = route.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? assert.fail(`no ${name} is known`))
      return [method, path, bodyOf(method, route, ids)] as const
    })
    const ask = async (): Promise<readonly (readonly [string, number])[]> => {
      const replies = []
      for (const [method, path, body] of asked) {
        replies.push([`${method} ${path}`, (await as('globex', method, path, body)).status] as const)
      }
      return replies
    }
    const missing = asked.map(([method, path]) => [`${method} ${path}`, 404] as const)
    assert.deepEqual(await ask(), missing)
    await as('globex', 'PUT', '/v1/streams/secret')
    const ackPath = `/v1/streams/secret/subscriptions/${claim.subscription_id}/deliveries/${delivery!.delivery_id}/ack`
    assert.equal((await as('globex', 'POST', ackPath)).status, 404, 'nor under a stream of the same name')
    assert.doesNotMatch((await as('globex', 'GET', '/v1/audit/export')).text, /acme/)
    assert.equal((await as('acme', 'POST', ackPath)).status, 200)
  })
})

describe('a thousand connections with wrong keys', () => {
  it('are refused, one and all, and a right one beside them is served', async () => {
    const wrong = Array.from({ length: 1000 }, async (_, i) => {
      const connection = await broker.connect()
      connection.write(`GET /v1/streams HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong-${i}\r\n\r\n`)
      const reply = await connection.reply()
      connection.close()
      return `${reply.status} ${reply.refusal().message}`
    })
    const right = Array.from({ length: 50 }, async () => (await as('acme', 'GET', '/v1/streams')).status)
    assert.deepEqual(new Set(await Promise.all(right)), new Set([200]))
    const refusals = new Set(await Promise.all(wrong))
    assert.deepEqual([refusals.size, [...refusals][0]?.slice(0, 3)], [1, '401'])
  })
})

const HEADERS = 'tenant=X-Auth-Tenant,principal=X-Auth-Principal,permissions=X-Auth-Permissions'
/** Address from which the trusted proxies of these tests connect. The node does not trust 127.0.0.3. */
const PROXY = '127.0.0.2'

/** The identity that a proxy sends for its client, whatever headers the client sent. */
const SAID = { 'x-auth-tenant': 'acme', 'x-auth-principal': 'ci', 'x-auth-permissions': 'tenant.inspect' }
const FORGED = {
  'x-auth-tenant': 'globex',
  'x-auth-principal': 'root',
  'x-auth-permissions': PERMISSIONS.join(','),
}

async function externalNode(context: TestContext): Promise<BrokerServer> {
  const flags = ['--auth-mode', 'external', '--identity-header', HEADERS, '--trusted-proxy', PROXY]
  const node = await BrokerServer.start({ flags })
  context.after(() => node.kill())
  return node
}

interface AskedFrom {
  readonly url: string
  readonly method?: string
  readonly localAddress?: string
  readonly headers?: Readonly<Record<string, string>>
}

function statusOf({ url, method = 'GET', localAddress = '127.0.0.1', headers = {} }: AskedFrom): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, localAddress, headers }, (reply) => {
      reply.resume()
      resolve(reply.statusCode!)
    })
    asked.on('error', reject)
    asked.end()
  })
}

/** @param url of the proxy */
async function behind(url: string, node: BrokerServer): Promise<void> {
  assert.equal(await statusOf({ url: `${url}/v1/streams` }), 200)
  // A client of the proxy forged its headers: the proxy replaces them, and its identity may not create streams.
  assert.equal(await statusOf({ url: `${url}/v1/streams/x`, method: 'PUT', headers: FORGED }), 403)
  // The forged headers do not come through the proxy.
  for (const localAddress of ['127.0.0.1', '127.0.0.3']) {
    assert.equal(await statusOf({ url: `${node.url}/v1/streams`, localAddress, headers: FORGED }), 401)
  }
}

describe('behind a proxy', () => {
  it('of Node the node believes what it says, and a forged header from a second address is refused', async (context) => {
    const node = await externalNode(context)
    const proxy = createServer((asked, reply) => {
      const headers = { ...asked.headers, ...SAID }
      const passed = request(
        `${node.url}${asked.url}`,
        { method: asked.method!, localAddress: PROXY, headers },
        (given) => {
          reply.writeHead(given.statusCode!, given.headers)
          given.pipe(reply)
        },
      )
      asked.pipe(passed)
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    context.after(() => proxy.close())
    await behind(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, node)
  })

  const hasNginx = spawnSync('nginx', ['-v']).error === undefined
  it(
    `of nginx likewise${hasNginx ? '' : ' (left out: nginx is not on this machine)'}`,
    { skip: !hasNginx },
    async (context) => {
      const node = await externalNode(context)
      const directory = temporaryDirectory()
      const said = Object.entries(SAID).map(([name, value]) => `proxy_set_header ${name} ${value};`)
      const socket = `${directory}/proxy.sock`
      writeFileSync(
        `${directory}/nginx.conf`,
        `daemon off; master_process off; pid ${directory}/pid; error_log ${directory}/error.log;
events {}
http {
  access_log off;
  client_body_temp_path ${directory}/body; proxy_temp_path ${directory}/proxy; fastcgi_temp_path ${directory}/f;
  uwsgi_temp_path ${directory}/u; scgi_temp_path ${directory}/s;
  server {
    listen unix:${socket};
    location / {
      proxy_pass http://${node.readyLine.http}; proxy_http_version 1.1; proxy_bind ${PROXY};
      ${said.join('\n      ')}
    }
  }
}
`,
      )
      const nginx = spawn('nginx', ['-c', `${directory}/nginx.conf`, '-e', `${directory}/error.log`], {
        stdio: 'ignore',
      })
      context.after(() => nginx.kill('SIGKILL'))
      const ask = (method: string, path: string, headers: Readonly<Record<string, string>>): Promise<number> =>
        new Promise((resolve, reject) => {
          const asked = request({ socketPath: socket, method, path, headers }, (reply) => {
            reply.resume()
            resolve(reply.statusCode!)
          })
          asked.on('error', reject)
          asked.end()
        })
      await eventually(() =>
        ask('GET', '/health', {}).then(
          () => true,
          () => false,
        ),
      )
      assert.equal(await ask('GET', '/v1/streams', {}), 200)
      assert.equal(await ask('PUT', '/v1/streams/x', FORGED), 403)
      const past = await statusOf({ url: `${node.url}/v1/streams`, localAddress: '127.0.0.3', headers: FORGED })
      assert.equal(past, 401)
    },
  )
})
