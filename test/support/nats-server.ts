/**
 * Real NATS servers with JetStream, on loopback, each with a directory of its own.
 *
 * N1  a server is found on the PATH, or in the cache that `npm run nats-server` fills. Without one, tests that need it are skipped
 * N2  all of them are killed when the process of the test ends
 */
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from './directories.ts'
import { killAtEnd } from './left-behind.ts'
import { Link } from './link.ts'

export const NATS_VERSION = '2.12.15'
/** N1 */
export const NATS_CACHE = fileURLToPath(new URL('../../node_modules/.cache/trilog/nats-server', import.meta.url))

const CACHED = `${NATS_CACHE}/${NATS_VERSION}/nats-server`

/** N1. Null: there is no server that is new enough. */
export function findNatsServer(): string | null {
  return ['nats-server', CACHED].find((command) => isNewEnough(command)) ?? null
}

/** Name and `skip` of a test that needs a server. */
export function natsOrSkip(name: string): { readonly name: string; readonly skip: boolean } {
  const isThere = findNatsServer() !== null
  return isThere
    ? { name, skip: false }
    : { name: `${name} (skipped: no nats-server, run \`npm run nats-server\`)`, skip: true }
}

function isNewEnough(command: string): boolean {
  if (command.includes('/') && !existsSync(command)) return false
  const { stdout } = spawnSync(command, ['--version'], { encoding: 'utf8' })
  const [, major, minor] = / v(\d+)\.(\d+)/.exec(stdout ?? '') ?? []
  return Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 10)
}

export interface NatsServer {
  readonly url: string
  kill(): Promise<void>
  start(): void
  /** Deletes what the server stored. The server must be killed before. */
  wipe(): void
}

/** Clients know only the addresses that they are given, which may be links: servers advertise no others. @param settings more lines of the configuration */
export async function startNatsServers(
  count: number,
  settings = '',
  hasJetStream = true,
): Promise<readonly NatsServer[]> {
  const ports = await freePorts(2 * count)
  const routes = ports.slice(count).map((port) => `nats://127.0.0.1:${port}`)
  return serversOn(ports, { settings, hasJetStream, routesOf: () => `routes: ${JSON.stringify(routes)}` })
}

export interface LinkedServers {
  readonly servers: readonly NatsServer[]
  /** By server: the links between it and the others. */
  readonly routes: readonly (readonly Link[])[]
}

/** Servers that speak to each other through links. */
export async function startLinkedNatsServers(count: number): Promise<LinkedServers> {
  const ports = await freePorts(2 * count)
  const routes: Link[][] = ports.slice(count).map(() => [])
  const from = await Promise.all(
    routes.map((own, i) =>
      Promise.all(
        routes.map(async (other, j) => {
          if (i === j) return []
          const link = await Link.to(`127.0.0.1:${ports[count + j]}`)
          own.push(link)
          other.push(link)
          return [link.url]
        }),
      ),
    ),
  )
  // Through advertised addresses the servers would bypass the links.
  const routesOf = (i: number): string => `advertise: "127.0.0.1:1", routes: ${JSON.stringify(from[i]!.flat())}`
  return { servers: serversOn(ports, { settings: '', hasJetStream: true, routesOf }), routes }
}

interface ServersOptions {
  readonly settings: string
  readonly hasJetStream: boolean
  /** Routes in the configuration of a server. */
  readonly routesOf: (server: number) => string
}

/** @param ports for clients, then for routes */
function serversOn(
  ports: readonly number[],
  { settings, hasJetStream, routesOf }: ServersOptions,
): readonly NatsServer[] {
  const command = findNatsServer()!
  const count = ports.length / 2
  return Array.from({ length: count }, (_, i) => {
    const directory = temporaryDirectory()
    const configuration = `${directory}/nats.conf`
    const cluster =
      count === 1
        ? ''
        : `cluster { name: test, no_advertise: true, listen: "127.0.0.1:${ports[count + i]}", ${routesOf(i)} }\n`
    writeFileSync(
      configuration,
      `listen: "127.0.0.1:${ports[i]}"\nserver_name: nats-${i + 1}\n${cluster}${settings}
${hasJetStream ? `jetstream { store_dir: ${JSON.stringify(`${directory}/store`)}, max_memory_store: 64MB, max_file_store: 4GB }` : ''}\n`,
    )
    return new Server(command, configuration, `${directory}/store`, `nats://127.0.0.1:${ports[i]}`)
  })
}

class Server implements NatsServer {
  readonly url: string
  readonly #command: string
  readonly #configuration: string
  readonly #store: string
  #child: ChildProcess | null = null

  constructor(command: string, configuration: string, store: string, url: string) {
    this.#command = command
    this.#configuration = configuration
    this.#store = store
    this.url = url
    this.start()
  }

  start(): void {
    const child = killAtEnd(spawn(this.#command, ['-c', this.#configuration], { stdio: 'ignore' }))
    child.unref()
    this.#child = child
  }

  async kill(): Promise<void> {
    const child = this.#child!
    if (child.exitCode !== null || child.signalCode !== null) return
    child.ref()
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  wipe(): void {
    rmSync(this.#store, { recursive: true, force: true })
    mkdirSync(this.#store)
  }
}

export async function freePorts(count: number): Promise<readonly number[]> {
  const listening = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, '127.0.0.1')
      await once(server, 'listening')
      return server
    }),
  )
  const ports = listening.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(listening.map(async (server) => once(server.close(), 'close')))
  return ports
}
