/** Programs of a package or an image, run by any Node. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { killAtEnd } from '../support/left-behind.ts'
import { LIMIT_MS, eventually } from '../support/waiting.ts'

export interface Program {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env?: NodeJS.ProcessEnv
  /** User and group; absent: those of the test. */
  readonly id?: number
}

export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** The environment of the tests without the settings of trilog, Node and npm. */
export const cleanEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(LOGSTORE|OBJSTORE|MQ|TRILOG|NODE|npm)_/i.test(name) || name === 'NODE_EXTRA_CA_CERTS',
    ),
  )

export function run({ command, args, cwd, env = {}, id }: Program): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { cwd, env: { ...cleanEnvironment(), ...env }, timeout: LIMIT_MS, ...identity(id) }
    execFile(command, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      resolve({ code, stdout, stderr })
    })
  })
}

const identity = (id: number | undefined): { uid?: number; gid?: number } =>
  id === undefined ? {} : { uid: id, gid: id }

export const ANY_PORTS = {
  LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
  LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:0',
  OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
  MQ_HTTP_BIND: '127.0.0.1:0',
  TRILOG_CONSOLE_BIND: '127.0.0.1:0',
}

const PARTS = ['logstore', 'objectstore', 'broker', 'console'] as const
type Part = (typeof PARTS)[number]

/** All services and the console, started by a program. */
export class StartedProgram {
  readonly #child: ChildProcess
  #stdout = ''
  #stderr = ''

  static async start(program: Program): Promise<StartedProgram> {
    const started = new StartedProgram(program)
    await eventually(() => started.#child.exitCode !== null || PARTS.every((part) => started.#addressOf(part)))
    assert.equal(started.#child.exitCode, null, started.#stderr)
    return started
  }

  private constructor({ command, args, cwd, env = {}, id }: Program) {
    this.#child = spawn(command, args, {
      cwd,
      env: { ...cleanEnvironment(), ...ANY_PORTS, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...identity(id),
    })
    killAtEnd(this.#child)
    this.#child.stdout!.setEncoding('utf8').on('data', (said: string) => (this.#stdout += said))
    this.#child.stderr!.setEncoding('utf8').on('data', (said: string) => (this.#stderr += said))
  }

  /** host:port of a service. */
  addressOf(part: Part): string {
    return this.#addressOf(part) ?? assert.fail(`${part} does not run`)
  }

  #addressOf(part: Part): string | undefined {
    return new RegExp(`^ready \\{"service":"${part}","http":"([^"]+)"`, 'm').exec(this.#stdout)?.[1]
  }

  /** The addresses as settings, for a command that looks for the services. */
  get settings(): NodeJS.ProcessEnv {
    return {
      ...ANY_PORTS,
      LOGSTORE_BIND_ADDRESS: this.addressOf('logstore'),
      OBJSTORE_BIND_ADDRESS: this.addressOf('objectstore'),
      MQ_HTTP_BIND: this.addressOf('broker'),
    }
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    const [code] = (await once(this.#child, 'close')) as [number | null]
    assert.equal(code, 0, this.#stderr)
  }
}

/** Stores and finds something in each service, and loads the console's page with all its files. */
export async function useServices(program: StartedProgram): Promise<void> {
  const store = `http://${program.addressOf('objectstore')}`
  assert.equal((await fetch(`${store}/photos`, { method: 'PUT' })).status, 200)
  assert.equal((await fetch(`${store}/photos/rose`, { method: 'PUT', body: 'a rose' })).status, 200)
  assert.equal(await (await fetch(`${store}/photos/rose`)).text(), 'a rose')

  const headers = {
    'content-type': 'application/json',
    'x-logstore-tenant': 'local',
    authorization: 'Bearer local-dev-token',
  }
  const post = async (path: string, body: object): Promise<Response> =>
    fetch(`http://${program.addressOf('logstore')}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  const resource = {
    attributes: [
      { key: 'tenant_id', value: { stringValue: 'local' } },
      { key: 'service.name', value: { stringValue: 'shop' } },
    ],
  }
  const logRecords = [{ timeUnixNano: '1763721600000000000', body: { stringValue: 'order 1042 was paid' } }]
  await post('/v1/otlp/logs', { resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] })
  const found = (await (await post('/v1/query', { dataset: 'shop' })).json()) as { readonly matched_records: number }
  assert.equal(found.matched_records, 1)

  const stream = `http://${program.addressOf('broker')}/v1/streams/orders`
  assert.ok((await fetch(stream, { method: 'PUT', body: '{}' })).ok)
  assert.equal((await fetch(stream)).status, 200)

  const console = `http://${program.addressOf('console')}`
  const page = await (await fetch(`${console}/`)).text()
  const files = Array.from(page.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g), ([, path]) => path!)
  assert.ok(files.length > 10)
  for (const file of new Set(files)) {
    const answer = await fetch(console + file)
    assert.equal(answer.status, 200, file)
    assert.doesNotMatch(await answer.text(), /^(import type|interface) /m, file)
  }
}

/** The output of a command that must succeed. */
export async function outputOf(program: Program): Promise<string> {
  const { code, stdout, stderr } = await run(program)
  assert.equal(code, 0, `${program.args.join(' ')}\n${stdout}\n${stderr}`)
  return stdout.trim()
}
