/**
 * The real process on a data directory of its own, and clients for it.
 *
 * V1  whatever a test leaves running is killed, and its directories are removed, when the test's own process ends; a running
 *     server never keeps that process alive
 * V2  settings of the surrounding environment never reach the server
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const READY_WITHIN_MS = 20_000
const STOP_WITHIN_MS = 10_000

export const DEVELOPMENT_CREDENTIALS = { tenant: 'local', token: 'local-dev-token' }

type Environment = Readonly<Record<string, string>>

/** The files of a policy, as users write them. */
export interface PolicyTenant {
  readonly id: string
  readonly credentials: readonly { readonly token_sha256: string; readonly datasets: readonly string[] }[]
  readonly limits?: {
    readonly window_seconds?: number
    readonly records?: number | null
    readonly bytes?: number | null
    readonly concurrent_requests?: number | null
  }
}

/** A tenant of the policy file with one token. */
export const policyTenant = (
  id: string,
  token: string,
  limits: NonNullable<PolicyTenant['limits']> = {},
  datasets: readonly string[] = ['*'],
): PolicyTenant => ({
  id,
  credentials: [{ token_sha256: createHash('sha256').update(token).digest('hex'), datasets }],
  limits,
})

type Child = ChildProcessByStdio<null, Readable, Readable>

const children = new Set<Child>()
const directories = new Set<string>()
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

export function temporaryDirectory(): string {
  const directory = mkdtempSync(`${tmpdir()}/trilog-test-`)
  directories.add(directory)
  return directory
}

/** One run of `node src/main.ts`, from its start to its end. */
class ServiceProcess {
  stdout = ''
  stderr = ''
  readonly #child: Child
  readonly #ended: Promise<number | NodeJS.Signals>

  constructor(env: Environment, args: readonly string[]) {
    const inherited = Object.entries(process.env).filter(([name]) => !/^(LOGSTORE|TRILOG|NODE_TEST)_/.test(name)) // V2
    this.#child = spawn(process.execPath, [MAIN, ...args], {
      env: { ...Object.fromEntries(inherited), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const child = this.#child
    children.add(child)
    child.stdout.setEncoding('utf8').on('data', (text: string) => (this.stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.stderr += text))
    this.#ended = new Promise((resolve) => {
      child.once('close', (code, signal) => {
        children.delete(child)
        resolve(code ?? signal ?? -1)
      })
    })
    this.#holdTest(false)
  }

  get pid(): number {
    assert(this.#child.pid !== undefined, 'the process did not start')
    return this.#child.pid
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** The exit code, or the signal that ended it. */
  async end(withinMs: number): Promise<number | NodeJS.Signals> {
    this.#holdTest(true)
    const waiting = new AbortController()
    const late = sleep(withinMs, 'late' as const, { signal: waiting.signal }).catch(() => 'late' as const)
    const how = await Promise.race([this.#ended, late])
    waiting.abort()
    this.#holdTest(false)
    if (how !== 'late') return how
    this.signal('SIGKILL')
    throw new Error(`the process was still running after ${withinMs} ms; it said:\n${this.stderr}`)
  }

  /** Waits for the line on stdout; undefined when the process ended without it. */
  async ready(): Promise<ReadyLine | undefined> {
    let ended = false
    void this.#ended.then(() => (ended = true))
    await eventually(() => ended || this.stdout.includes('\n'), READY_WITHIN_MS)
    const line = /^ready (\{.*\})$/m.exec(this.stdout)?.[1]
    return line === undefined ? undefined : (JSON.parse(line) as ReadyLine) // as the contract says
  }

  /** V1: only while a test waits for the process may it keep the test's own process alive. */
  #holdTest(hold: boolean): void {
    for (const held of [this.#child, this.#child.stdout as Socket, this.#child.stderr as Socket]) {
      if (hold) held.ref()
      else held.unref()
    }
  }
}

interface ReadyLine {
  readonly service: string
  readonly http: string
  readonly grpc: string | null
  readonly pid: number
}

/** A start that is expected to fail. */
export async function failToStart(
  env: Environment,
  args: readonly string[] = ['--services', 'logstore'],
): Promise<{ readonly code: number | NodeJS.Signals; readonly stdout: string; readonly stderr: string }> {
  const child = new ServiceProcess(
    { LOGSTORE_BIND_ADDRESS: '127.0.0.1:0', LOGSTORE_DATA_DIR: `${temporaryDirectory()}/data`, ...env },
    args,
  )
  const code = await child.end(READY_WITHIN_MS)
  return { code, stdout: child.stdout, stderr: child.stderr }
}

export interface ServerOptions {
  readonly env?: Environment
  /** Written to a file that the server is pointed at; without it the development policy holds. */
  readonly policy?: readonly PolicyTenant[]
}

export interface RequestOptions {
  readonly method?: string
  readonly tenant?: string
  readonly token?: string
  /** null leaves a header out that would be set otherwise. */
  readonly headers?: Readonly<Record<string, string | null>>
}

export class LogStoreServer {
  readonly directory: string
  readonly #env: Environment
  readonly #policyFile: string
  #process: ServiceProcess
  #ready: ReadyLine

  static async start({ env = {}, policy }: ServerOptions = {}): Promise<LogStoreServer> {
    const directory = temporaryDirectory()
    const policyFile = `${directory}/policy.json`
    if (policy) writeFileSync(policyFile, JSON.stringify({ tenants: policy }))
    const settings = {
      LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
      LOGSTORE_DATA_DIR: `${directory}/data`,
      ...(policy && { LOGSTORE_TENANT_POLICY_FILE: policyFile }),
      ...env,
    }
    return new LogStoreServer(directory, settings, policyFile, ...(await launch(settings)))
  }

  private constructor(
    directory: string,
    env: Environment,
    policyFile: string,
    process: ServiceProcess,
    ready: ReadyLine,
  ) {
    this.directory = directory
    this.#env = env
    this.#policyFile = policyFile
    this.#process = process
    this.#ready = ready
  }

  get readyLine(): ReadyLine {
    return this.#ready
  }

  get url(): string {
    return `http://${this.#ready.http}`
  }

  /** host:port */
  get grpc(): string {
    assert(this.#ready.grpc !== null, 'start it with LOGSTORE_OTLP_GRPC_BIND_ADDRESS')
    return this.#ready.grpc
  }

  get dataDirectory(): string {
    return this.#env['LOGSTORE_DATA_DIR']!
  }

  get pid(): number {
    return this.#process.pid
  }

  /** Of the process that runs now. */
  get stdout(): string {
    return this.#process.stdout
  }

  get stderr(): string {
    return this.#process.stderr
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal)
  }

  /** For SIGHUP. */
  writePolicy(policy: readonly PolicyTenant[] | string): void {
    writeFileSync(this.#policyFile, typeof policy === 'string' ? policy : JSON.stringify({ tenants: policy }))
  }

  /** Waits for the process, which was told to stop; its exit code must be 0. */
  async ended(): Promise<void> {
    assert.equal(await this.#process.end(STOP_WITHIN_MS), 0, this.#process.stderr)
  }

  async stop(): Promise<void> {
    this.signal('SIGTERM')
    await this.ended()
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    assert.equal(await this.#process.end(STOP_WITHIN_MS), 'SIGKILL')
  }

  /** Starts it again, after `stop` or `kill`, on the same data and another port. */
  async startAgain(env: Environment = {}): Promise<void> {
    const [process, ready] = await launch({ ...this.#env, ...env })
    this.#process = process
    this.#ready = ready
  }

  async restart(): Promise<void> {
    await this.stop()
    await this.startAgain()
  }

  /** A request with the development credentials, unless others are given. A body that is an object is sent as JSON. */
  async request(path: string, body: Uint8Array | string | object | null, options: RequestOptions = {}): Promise<Reply> {
    const { tenant, token } = { ...DEVELOPMENT_CREDENTIALS, ...options }
    const headers = new Headers({ 'x-logstore-tenant': tenant, authorization: `Bearer ${token}` })
    if (body !== null) headers.set('content-type', JSON_TYPE)
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      if (value === null) headers.delete(name)
      else headers.set(name, value)
    }
    const bytes =
      body === null || body instanceof Uint8Array
        ? body
        : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
    const response = await fetch(`${this.url}${path}`, {
      method: options.method ?? (body === null ? 'GET' : 'POST'),
      headers,
      body: bytes as Uint8Array<ArrayBuffer> | null, // no test sends shared memory
      signal: AbortSignal.timeout(30_000),
    })
    return new Reply(response.status, response.headers, Buffer.from(await response.arrayBuffer()))
  }

  /** A socket of its own, to send what no HTTP client sends. */
  connect(): Promise<RawConnection> {
    const [host, port] = this.#ready.http.split(':')
    return RawConnection.open(host!, Number(port))
  }
}

async function launch(env: Environment): Promise<[ServiceProcess, ReadyLine]> {
  const child = new ServiceProcess(env, ['--services', 'logstore'])
  const ready = await child.ready()
  assert(ready, `the log store did not start:\n${child.stderr}`)
  return [child, ready]
}

const JSON_TYPE = 'application/json'

export interface Rejection {
  readonly status: 'rejected'
  readonly retryable: boolean
  readonly error: { readonly kind: string; readonly message: string }
}

export class Reply {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Buffer

  constructor(status: number, headers: Headers, bytes: Buffer) {
    this.status = status
    this.headers = headers
    this.bytes = bytes
  }

  get text(): string {
    return this.bytes.toString()
  }

  json(): unknown {
    assert.equal(this.headers.get('content-type'), JSON_TYPE, this.text)
    return JSON.parse(this.text)
  }

  /** The body of a success. */
  ok(): unknown {
    assert.equal(this.status, 200, this.text)
    return this.json()
  }

  /** The body of a refusal, which must be the envelope and nothing else. */
  rejection(): Rejection {
    const rejection = this.json() as Rejection // which the next lines check
    assert.deepEqual(
      [Object.keys(rejection), Object.keys(rejection.error)],
      [
        ['status', 'retryable', 'error'],
        ['kind', 'message'],
      ],
    )
    assert.equal(rejection.status, 'rejected')
    return rejection
  }

  get kind(): string {
    return this.rejection().error.kind
  }
}

export class RawConnection {
  readonly socket: Socket
  #received = Buffer.alloc(0)
  #closed = false

  static async open(host: string, port: number): Promise<RawConnection> {
    const socket = connect(port, host)
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    return new RawConnection(socket)
  }

  private constructor(socket: Socket) {
    this.socket = socket
    socket.setNoDelay()
    socket.on('data', (bytes) => (this.#received = Buffer.concat([this.#received, bytes])))
    socket.on('error', () => {}) // a reset is a close
    socket.on('close', () => (this.#closed = true))
  }

  get closed(): boolean {
    return this.#closed
  }

  write(bytes: Uint8Array | string): void {
    this.socket.write(bytes)
  }

  /** The next answer on the connection. */
  async reply(withinMs = 10_000): Promise<Reply> {
    let headEnd = -1
    await eventually(() => (headEnd = this.#received.indexOf('\r\n\r\n')) >= 0 || this.#closed, withinMs)
    assert(headEnd >= 0, 'the connection was closed without an answer')
    const [statusLine, ...lines] = this.#received.subarray(0, headEnd).toString('latin1').split('\r\n')
    const headers = new Headers(
      lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
    )
    const end = headEnd + 4 + Number(headers.get('content-length') ?? 0)
    await eventually(() => this.#received.byteLength >= end || this.#closed, withinMs)
    const body = this.#received.subarray(headEnd + 4, end)
    this.#received = this.#received.subarray(end)
    return new Reply(Number(statusLine!.split(' ')[1]), headers, body)
  }

  close(): void {
    this.socket.destroy()
  }
}

/** Polls until the condition holds; fails when it does not within the time. */
export async function eventually(condition: () => boolean | Promise<boolean>, withinMs = 10_000): Promise<void> {
  const dueMs = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > dueMs) throw new Error(`not within ${withinMs} ms: ${String(condition)}`)
    await sleep(5)
  }
}

/** Header section of a POST with the development credentials; the body is the caller's. */
export function requestHead(
  path: string,
  contentLength: number,
  headers: Readonly<Record<string, string>> = {},
): string {
  const all = {
    host: 'localhost',
    'x-logstore-tenant': DEVELOPMENT_CREDENTIALS.tenant,
    authorization: `Bearer ${DEVELOPMENT_CREDENTIALS.token}`,
    'content-type': JSON_TYPE,
    'content-length': String(contentLength),
    ...headers,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
}
