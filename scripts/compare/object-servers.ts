/** The servers that objects are put to and read from: trilog, two object stores that others use, and nginx, which only reads. */
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CountingConnection } from './counting-connection.ts'
import { ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, presignedTarget } from './presign.ts'
import { freePort, startServer, until, untilListening, versionOf } from './server.ts'
import type { Server } from './server.ts'

const MAIN = fileURLToPath(new URL('../../src/start.js', import.meta.url))
const READY = /^ready (\{.*\})$/m
const BUCKET = 'files'
const NONE = Buffer.alloc(0)

export interface ObjectServer {
  readonly name: string
  /** Whether an object is synced to the disk before its sender is answered; null: it takes none. */
  readonly syncs: 'yes' | 'no' | null
  readonly port: number
  readonly server: Server
  /** @returns the request target */
  target(method: string, number: number): string
}

export interface ObjectPeer {
  readonly name: string
  /** @param body what every object holds. @throws MissingError when it is not installed */
  start(directory: string, objects: number, body: Buffer): Promise<ObjectServer>
}

const pathOf = (number: number): string => `/${BUCKET}/${String(number).padStart(6, '0')}`

/** Connections that put the first objects. */
const PUTTING = 16

async function putAll(server: ObjectServer, objects: number, body: Buffer): Promise<ObjectServer> {
  const connections = await Promise.all(Array.from({ length: PUTTING }, () => CountingConnection.open(server.port)))
  const host = `127.0.0.1:${server.port}`
  const bucket = presignedTarget('PUT', host, `/${BUCKET}`, new Date())
  // MinIO listens, and says that it is healthy, before it takes a bucket.
  await until(server.server, async () => (await connections[0]!.send('PUT', bucket, host, NONE)).status === 200)
  const put = async (connection: CountingConnection, first: number): Promise<void> => {
    for (let number = first; number < objects; number += PUTTING) {
      const { status } = await connection.send('PUT', server.target('PUT', number), host, body)
      assert.equal(status, 200, `${server.name}: an object`)
    }
    connection.close()
  }
  await Promise.all(connections.map(put))
  return server
}

/** Targets are signed once, as clients that are measured do nothing else than send. */
function signedTargets(port: number): ObjectServer['target'] {
  const made = new Map<string, string>()
  return (method, number) => {
    const name = `${method} ${number}`
    const target = made.get(name) ?? presignedTarget(method, `127.0.0.1:${port}`, pathOf(number), new Date())
    made.set(name, target)
    return target
  }
}

/** @param main the start file of the tree that is measured */
export const trilogObjects = (main: string): ObjectPeer => ({
  name: 'trilog',
  async start(directory, objects, body) {
    const key = { access_key_id: ACCESS_KEY_ID, secret_access_key: SECRET_ACCESS_KEY, principal: 'comparison' }
    const permissions = ['read', 'write', 'list', 'delete', 'admin']
    const credentials = join(directory, 'credentials.json')
    mkdirSync(directory, { recursive: true })
    writeFileSync(credentials, JSON.stringify({ keys: [{ ...key, permissions }] }), { mode: 0o600 })
    const server = startServer(process.execPath, ['--v8-pool-size=0', main, '--services', 'objectstore'], {
      env: {
        OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
        OBJSTORE_DATA_DIR: join(directory, 'data'),
        OBJSTORE_AUTH_MODE: 'sigv4',
        OBJSTORE_CREDENTIALS_FILE: credentials,
        OBJSTORE_REGION: REGION,
        OBJSTORE_MAX_PUT_BYTES: String(Math.max(16 << 20, body.byteLength)),
        TRILOG_LOG_LEVEL: 'warn',
      },
    })
    await until(server, () => READY.test(server.stdout()))
    const { http } = JSON.parse(READY.exec(server.stdout())![1]!) as { http: string } // as the contract says
    const port = Number(http.split(':')[1])
    return putAll({ name: 'trilog', syncs: 'yes', port, server, target: signedTargets(port) }, objects, body)
  },
})

const minio: ObjectPeer = {
  name: 'minio',
  async start(directory, objects, body) {
    versionOf('minio', '--version', /minio version (\S+)/)
    const [port, consolePort] = [await freePort(), await freePort()]
    const addresses = ['--address', `127.0.0.1:${port}`, '--console-address', `127.0.0.1:${consolePort}`]
    const server = startServer('minio', ['server', '--quiet', ...addresses, directory], {
      env: { MINIO_ROOT_USER: ACCESS_KEY_ID, MINIO_ROOT_PASSWORD: SECRET_ACCESS_KEY, MINIO_BROWSER: 'off' },
    })
    await untilListening(server, port)
    return putAll({ name: 'MinIO', syncs: 'yes', port, server, target: signedTargets(port) }, objects, body)
  },
}

const versitygw: ObjectPeer = {
  name: 'versitygw',
  async start(directory, objects, body) {
    versionOf('versitygw', '--version', /[Vv]ersion\s*:?\s*(\S+)/)
    const port = await freePort()
    const files = join(directory, 'files')
    mkdirSync(files, { recursive: true })
    const options = ['--port', `127.0.0.1:${port}`, '--quiet', '--keep-alive', '--region', REGION]
    const keys = ['--access', ACCESS_KEY_ID, '--secret', SECRET_ACCESS_KEY]
    const server = startServer('versitygw', [...options, ...keys, 'posix', files])
    await untilListening(server, port)
    return putAll({ name: 'VersityGW', syncs: 'no', port, server, target: signedTargets(port) }, objects, body)
  },
}

const nginx: ObjectPeer = {
  name: 'nginx',
  async start(directory, objects, body) {
    versionOf('nginx', '-v', /nginx\/(\S+)/)
    const port = await freePort()
    mkdirSync(join(directory, BUCKET), { recursive: true })
    chmodSync(directory, 0o755) // it reads as another user
    for (let number = 0; number < objects; number++) writeFileSync(join(directory, pathOf(number)), body)
    const configuration = `
      master_process off; daemon off; pid ${directory}/pid; error_log ${directory}/errors.log;
      events { worker_connections 4096; }
      http {
        access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000000; open_file_cache max=100000;
        client_body_temp_path ${directory}/body; proxy_temp_path ${directory}/proxy;
        fastcgi_temp_path ${directory}/fastcgi; uwsgi_temp_path ${directory}/uwsgi; scgi_temp_path ${directory}/scgi;
        server { listen 127.0.0.1:${port}; root ${directory}; }
      }`
    writeFileSync(join(directory, 'nginx.conf'), configuration)
    const server = startServer('nginx', ['-c', join(directory, 'nginx.conf')])
    await untilListening(server, port)
    return { name: 'nginx', syncs: null, port, server, target: (_method, number) => pathOf(number) }
  },
}

export const OBJECT_PEERS: readonly ObjectPeer[] = [trilogObjects(MAIN), minio, versitygw, nginx]
