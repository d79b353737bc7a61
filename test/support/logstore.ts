/** The log store as a real process, and clients for it. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { Connection, HttpReply, JSON_TYPE, send } from './http.ts'
import type { RequestBody } from './http.ts'
import { temporaryDirectory } from './directories.ts'
import { RunningService, launch, runToEnd } from './process.ts'
import type { Command, Ending, Environment, Launched } from './process.ts'

export const DEVELOPMENT_CREDENTIALS = { tenant: 'local', token: 'local-dev-token' }

/** A tenant of a policy file, as users write it. */
export interface PolicyTenant {
  readonly id: string
  readonly credentials: readonly { readonly token_sha256: string; readonly datasets: readonly string[] }[]
  readonly limits?: {
    readonly window_seconds?: number
    readonly records?: number | null
    readonly bytes?: number | null
    readonly concurrent_requests?: number | null
  }
  readonly tenant_claim?: 'required' | 'optional'
  readonly max_records_per_batch?: number
  readonly partial_success?: boolean
  readonly smooth_quota?: boolean
  readonly deduplication?: 'batches' | 'records'
  readonly retention?: Readonly<Record<string, { readonly max_age_seconds: number }>>
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

const SERVICES = ['--services', 'logstore']

/** A start that is expected to fail. */
export const failToStart = (env: Environment, args: readonly string[] = SERVICES): Promise<Ending> =>
  runToEnd({
    entry: 'src/start.js',
    args,
    env: { LOGSTORE_BIND_ADDRESS: '127.0.0.1:0', LOGSTORE_DATA_DIR: `${temporaryDirectory()}/data`, ...env },
  })

export interface ServerOptions {
  readonly env?: Environment
  /** Written to the server's policy file. Default: the development policy. */
  readonly policy?: readonly PolicyTenant[]
}

export interface RequestOptions {
  readonly method?: string
  readonly tenant?: string
  readonly token?: string
  /** null leaves a header out that would be set otherwise. */
  readonly headers?: Readonly<Record<string, string | null>>
}

export class LogStoreServer extends RunningService {
  readonly directory: string
  readonly #policyFile: string
  readonly dataDirectory: string

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
    const command: Command = { entry: 'src/start.js', args: SERVICES, env: settings }
    return new LogStoreServer(directory, settings.LOGSTORE_DATA_DIR, policyFile, command, await launch(command))
  }

  private constructor(
    directory: string,
    dataDirectory: string,
    policyFile: string,
    command: Command,
    launched: Launched,
  ) {
    super(command, launched)
    this.directory = directory
    this.dataDirectory = dataDirectory
    this.#policyFile = policyFile
  }

  /** host:port */
  get grpc(): string {
    const { grpc } = this.readyLine
    assert(grpc !== null, 'start it with LOGSTORE_OTLP_GRPC_BIND_ADDRESS')
    return grpc
  }

  /** Names of the server's segments, oldest first. */
  get bundles(): readonly string[] {
    const names = readdirSync(`${this.dataDirectory}/bundles`)
    return names.filter((name) => /^[0-9a-f]{16}$/.test(name)).sort()
  }

  isCompacted(bundle: string): boolean {
    return existsSync(`${this.dataDirectory}/bundles/${bundle}/compact.bin`)
  }

  /** Writes the policy file, which the server reads on SIGHUP. */
  writePolicy(policy: readonly PolicyTenant[] | string): void {
    writeFileSync(this.#policyFile, typeof policy === 'string' ? policy : JSON.stringify({ tenants: policy }))
  }

  /** A request with the development credentials, unless others are given. */
  request(path: string, body: RequestBody, options: RequestOptions = {}): Promise<Reply> {
    const { tenant, token } = { ...DEVELOPMENT_CREDENTIALS, ...options }
    const headers = new Headers({ 'x-logstore-tenant': tenant, authorization: `Bearer ${token}` })
    if (body !== null) headers.set('content-type', JSON_TYPE)
    for (const [name, value] of Object.entries(options.headers ?? {})) {
      if (value === null) headers.delete(name)
      else headers.set(name, value)
    }
    const method = options.method ?? (body === null ? 'GET' : 'POST')
    return send(Reply, method, `${this.url}${path}`, body, headers)
  }

  connect(): Promise<RawConnection> {
    return Connection.open(this.readyLine.http, Reply)
  }
}

export type RawConnection = Connection<Reply>

export interface Rejection {
  readonly status: 'rejected'
  readonly retryable: boolean
  readonly error: { readonly kind: string; readonly message: string }
}

export class Reply extends HttpReply {
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
