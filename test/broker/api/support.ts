/** The broker's routes over a listening server, with operations that only record their calls. */
import assert from 'node:assert/strict'
import { BrokerCounters } from '../../../src/broker/counters.ts'
import { openAccess } from '../../../src/broker/api/access.ts'
import { brokerService } from '../../../src/broker/api/routes.ts'
import { replicationReplies } from './replication-replies.ts'
import { cursor, delivery, group, incident, segment, stream } from './sample-values.ts'
import type { BrokerHttpParts } from '../../../src/broker/api/parts.ts'
import type { AskedBroker, BrokerOperations, Caller } from '../../../src/broker/operations.ts'
import { refuse } from '../../../src/broker/refusals.ts'
import type { Acknowledgement } from '../../../src/broker/wire/answers.ts'
import { listen } from '../../../src/http/server.ts'
import type { HttpServer } from '../../../src/http/server.ts'
import { WebGuard } from '../../../src/http/web-guard.ts'
import { TlsFilesOnDisk } from '../../support/certificates.ts'
import type { Authority, Certified } from '../../support/certificates.ts'
import { RawClient, TestClock, until } from '../../support/http-server.ts'
import { OPEN, WELL } from '../../support/health.ts'
import { standingRoutes } from '../../../src/http/standing-endpoints.ts'
import { noConnections } from '../../support/connections.ts'

export const CALLER: Caller = { tenant: 'local', principal: 'local' }
export const MAX_BODY_BYTES = 100_000

type Replies = { readonly [Name in keyof AskedBroker]: Awaited<ReturnType<AskedBroker[Name]>> }

const api_version = 'v1'
const acknowledgement: Acknowledgement = { durability: 'local-sync', durable: true, replicas: 1 }
/** One answer of each operation. Every optional field is present in one of them. */
export const REPLIES: Replies = {
  createStream: { api_version, stream: 'orders', created: true, acknowledgement },
  listStreams: { api_version, streams: [stream, { ...stream, failure_policy: null }], stream_count: 2 },
  describeStream: { api_version, ...stream },
  updateStream: {
    api_version,
    stream: 'orders',
    updated: true,
    default_durability: stream.default_durability,
    retention: stream.retention,
    failure_policy: stream.failure_policy,
    updated_at_ms: 5,
    acknowledgement,
  },
  deleteStream: {
    api_version,
    stream: 'orders',
    deleted: true,
    removed_records: 2,
    removed_bytes: 20,
    deleted_at_ms: 5,
    acknowledgement,
  },
  purgeStream: {
    api_version,
    stream: 'orders',
    first_offset: 2,
    previous_first_offset: 0,
    removed_records: 2,
    removed_bytes: 20,
    purged_at_ms: 5,
    acknowledgement,
  },
  redrive: {
    api_version,
    stream: 'dead',
    redriven_count: 1,
    results: [
      { dead_letter_offset: 0, stream: 'orders', offset: 7 },
      {
        dead_letter_offset: 1,
        error: { code: 'write_not_allowed', message: 'used', action: 'none', retryable: false },
      },
    ],
    next_offset: 2,
    end_of_stream: true,
    acknowledgement,
  },
  listGroups: {
    api_version,
    stream: 'orders',
    group_count: 1,
    consumer_groups: [
      {
        consumer_group: 'g 1',
        progress_offset: 1,
        lag_messages: 2,
        in_flight_count: 1,
        delayed_count: 0,
        cursor_count: 1,
        oldest_unfinished_age_millis: 4000,
      },
    ],
  },
  deleteGroup: {
    api_version,
    stream: 'orders',
    consumer_group: 'g 1',
    deleted: true,
    deleted_at_ms: 5,
    acknowledgement,
  },
  seekGroup: {
    api_version,
    stream: 'orders',
    consumer_group: 'g 1',
    offset: 0,
    previous_offset: 7,
    reason: 'again',
    sought_at_ms: 5,
    acknowledgement,
  },
  deleteCursor: {
    api_version,
    stream: 'orders',
    consumer_group: 'g 1',
    cursor: 'main',
    offset: 3,
    deleted: true,
    deleted_at_ms: 5,
    acknowledgement,
  },
  publish: {
    api_version,
    stream: 'orders',
    offset: 7,
    next_offset: 8,
    message_id: 'm-"1"',
    ingest_time_ms: 1_700_000_000_000,
    payload_bytes: 5,
    acknowledgement,
  },
  publishBatch: {
    api_version,
    stream: 'orders',
    next_offset: 1,
    published_count: 1,
    results: [{ offset: 0, message_id: 'm' }, { error: refuse('invalid_payload', 'bad').detail }],
    ingest_time_ms: 1,
    acknowledgement,
  },
  replay: Buffer.from('{"replayed":true}'),
  claim: Buffer.from('{"claimed":true}'),
  ack: { ...delivery, offset: 1, attempt: 1, acknowledged_at_ms: 2, acknowledgement },
  batchAck: {
    api_version,
    stream: 'orders',
    subscription_id: 'sub-1',
    acknowledged_count: 1,
    acknowledged_at_ms: 2,
    results: [
      { delivery_id: 'dlv-1', offset: 1, attempt: 1 },
      { delivery_id: 'dlv-2', error: refuse('lease_expired', 'late').detail },
    ],
    acknowledgement,
  },
  nack: {
    ...delivery,
    offset: 1,
    attempt: 3,
    will_redeliver: false,
    policy_action: 'dead_lettered',
    available_at_ms: 5,
    dead_letter_stream: 'dead',
    dead_letter_offset: 0,
    acknowledgement,
  },
  renew: {
    ...delivery,
    lease: {
      consumer_group: 'workers',
      offset: 1,
      attempt: 1,
      state: 'active',
      leased_at_ms: 1,
      lease_expires_at_ms: 2,
      lease_remaining_millis: 1,
    },
    acknowledgement,
  },
  retry: { ...delivery, offset: 1, attempt: 1, available_at_ms: 4, acknowledgement },
  deadLetter: {
    ...delivery,
    source_offset: 1,
    dead_letter_stream: 'dead',
    dead_letter_offset: 0,
    attempt: 1,
    acknowledgement,
  },
  describeGroup: {
    ...group,
    mode: 'shared_queue',
    highest_next_offset: 9,
    progress_offset: 3,
    lag_messages: 6,
    in_flight_count: 1,
    delayed_count: 1,
    cursors: [cursor],
    delayed_retries: [{ offset: 4, attempt: 1, available_at_ms: 8 }],
  },
  leases: {
    ...group,
    lease_count: 1,
    leases: [
      {
        offset: 1,
        attempt: 1,
        state: 'acked',
        subscription_id: null,
        delivery_id: 'dlv-1',
        leased_at_ms: null,
        lease_expires_at_ms: null,
        lease_remaining_millis: null,
        reason: 'no',
      },
    ],
    truncated: false,
  },
  delayed: {
    ...group,
    delayed_count: 1,
    delayed: [{ offset: 4, attempt: 1, available_at_ms: 8 }],
    truncated: false,
  },
  replayConsumers: {
    ...group,
    replay_consumer_count: 1,
    replay_consumers: [
      { consumer_id: 'c', returned_records: 2, end_of_stream: true, next_offset: 2, observed_at_ms: 1 },
    ],
  },
  cursors: { ...group, cursor_count: 1, cursors: [cursor] },
  commitCursor: { ...group, cursor: 'main', offset: 3, committed_at_ms: 9, acknowledgement },
  rewindCursor: {
    ...group,
    cursor: 'main',
    offset: 1,
    previous_offset: null,
    reason: 'again',
    rewound_at_ms: 9,
    acknowledgement,
  },
  audit: Buffer.from('{"events":[]}'),
  retentionPlan: {
    stream: 'orders',
    dry_run: true,
    evaluated_at_ms: 1,
    policy: { max_age_millis: null, max_bytes: 9, min_cursor_name: 'main' },
    first_offset: 0,
    next_offset: 2,
    planned_first_offset: 1,
    cursor_floor_offset: null,
    removable_records: 1,
    removable_bytes: 10,
    retained_records: 1,
    retained_bytes: 10,
  },
  tieringReadiness: {
    stream: 'orders',
    evaluated_at_ms: 1,
    ready: true,
    eligible_segments: [{ ...segment, sealed: true }],
    eligible_records: 2,
    eligible_bytes: 20,
    blocked: [{ segment: '001', reason: 'active' }],
  },
  archiveManifest: {
    schema: 'broker.archive_manifest.v1',
    stream: 'orders',
    created_at_ms: 1,
    first_offset: 0,
    next_offset: 2,
    segments: [{ ...segment, file: 'segments/000/records.log', file_bytes: 4096 }],
  },
  quarantine: { stream: 'orders', incident_count: 1, incidents: [incident] },
  acknowledgeQuarantine: { ...incident, state: 'acknowledged', acknowledged_by: 'ops', acknowledgement },
  ...replicationReplies,
  applyReplica: {
    api_version,
    stream: 'orders',
    applied: 1,
    skipped: 0,
    next_expected_offset: 1,
    target_watermark: 1,
    applied_origin_offsets: [0],
    acknowledgement,
  },
}

export type OperationName = keyof BrokerOperations

export interface Call {
  readonly name: OperationName
  readonly args: readonly unknown[]
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export interface Asked {
  readonly body?: string | Uint8Array | object
  readonly headers?: Readonly<Record<string, string>>
  /** The request uses a TLS connection with this client certificate. */
  readonly certificate?: Certified
}

export class TestBroker {
  readonly calls: Call[] = []
  readonly counters = new BrokerCounters()
  readonly clock = new TestClock()
  readonly refused: Parameters<BrokerHttpParts['onRefused']>[] = []
  readonly unidentified: Parameters<BrokerHttpParts['onUnidentified']>[] = []
  readonly logged: { readonly details: object; readonly message: string }[] = []
  /** What operations do instead of giving the answers above. */
  instead: ((call: Call) => unknown) | null = null
  #server: HttpServer | null = null
  readonly #clients = new Map<Certified | null, RawClient>()
  readonly #authority: Authority | null

  /** @param authority if given, the server uses TLS: this authority signs its certificate and those of clients */
  static async start(
    overrides: Partial<BrokerHttpParts> = {},
    authority: Authority | null = null,
  ): Promise<TestBroker> {
    const broker = new TestBroker(authority)
    const tls = authority === null ? null : new TlsFilesOnDisk()
    tls?.write(authority!.certify([['CN', 'localhost']]), authority)
    const logger = {
      error: (details: object, message: string): void => void broker.logged.push({ details, message }),
    }
    const service = brokerService({
      operations: broker.#operations(),
      connections: noConnections(),
      node: {
        nodeId: 'node-1',
        version: '1.2.3',
        httpBind: () => `127.0.0.1:${broker.#server?.port}`,
        authMode: 'insecure-local',
        metricsExposure: 'disabled',
      },
      storage: () => ({ status: 'ok' }),
      health: WELL,
      standing: standingRoutes(OPEN),
      clock: () => ({ offset_ms: 0 }),
      metrics: null,
      counters: broker.counters,
      unread: { hold: () => () => {} },
      maxBodyBytes: MAX_BODY_BYTES,
      access: openAccess(CALLER),
      onRefused: (...refused) => void broker.refused.push(refused),
      onUnidentified: (...refused) => void broker.unidentified.push(refused),
      guard: new WebGuard({ bindHost: '127.0.0.1', allowedHosts: [] }),
      turn: () => Promise.resolve(),
      logger,
      ...overrides,
    })
    broker.#server = await listen(
      service,
      { host: '127.0.0.1', port: 0, setting: 'TEST_BIND', tls: tls?.settings ?? null },
      { logger, clock: broker.clock, random: (bytes) => void bytes.fill(7) },
    )
    return broker
  }

  private constructor(authority: Authority | null) {
    this.#authority = authority
  }

  async stop(): Promise<void> {
    for (const client of this.#clients.values()) client.destroy()
    await this.#server!.close({ withinMs: 1000 })
  }

  get port(): number {
    return this.#server!.port
  }

  untilBusy(): Promise<void> {
    return until(() => this.#server!.inFlight > 0)
  }

  /** A connection of its own. */
  connect(certificate: Certified | null = null): Promise<RawClient> {
    const tls = this.#authority === null ? undefined : { ca: this.#authority.cert, ...certificate }
    return RawClient.connect(this.#server!, tls)
  }

  async #clientOf(certificate: Certified | null): Promise<RawClient> {
    const known = this.#clients.get(certificate)
    if (known !== undefined) return known
    const client = await this.connect(certificate)
    this.#clients.set(certificate, client)
    return client
  }

  /** Sends the path and the headers unchanged. Requests with the same certificate share a connection, one after the other. */
  async ask(method: string, path: string, { body, headers = {}, certificate }: Asked = {}): Promise<Answer> {
    const bytes =
      body === undefined || typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
    const length = bytes === undefined ? {} : { 'content-length': String(Buffer.byteLength(bytes)) }
    const lines = Object.entries({ host: 'localhost', ...length, ...headers }).map(
      ([name, value]) => `${name}: ${value}`,
    )
    const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
    const client = await this.#clientOf(certificate ?? null)
    await client.send(Buffer.concat([head, Buffer.from(bytes ?? '')]))
    const reply = await client.reply(method === 'HEAD')
    assert(reply, 'the connection was closed')
    return { status: reply.status, headers: reply.headers, text: reply.body }
  }

  /** The arguments of the only call since `taken` was last called, without the caller. */
  taken(name: OperationName): readonly unknown[] {
    const calls = this.calls.splice(0)
    assert.deepEqual(
      calls.map((call) => call.name),
      [name],
    )
    const [caller, ...args] = calls[0]!.args
    const { tenant, principal } = caller as Caller // the first argument of every operation
    assert.deepEqual({ tenant, principal }, CALLER)
    return args
  }

  #operations(): BrokerOperations {
    return new Proxy({} as BrokerOperations, {
      get:
        (_, name: OperationName) =>
        (answer: { answered(reply: unknown): void; refused(error: unknown): void }, ...args: unknown[]): void => {
          const call = { name, args: args.map(kept) }
          this.calls.push(call)
          const reply = async (): Promise<unknown> => (this.instead ? await this.instead(call) : REPLIES[name])
          reply().then(
            (given) => answer.answered(given),
            (error: unknown) => answer.refused(error),
          )
        },
    })
  }
}

/** Like the operations, copies everything that points into the bytes of a request, before the first await. */
function kept(arg: unknown): unknown {
  if (typeof arg !== 'object' || arg === null || !('payload' in arg && 'key' in arg)) return arg
  return { ...arg, payload: textOf(arg.payload), key: textOf(arg.key) }
}

const textOf = (content: unknown): unknown =>
  content instanceof Uint8Array ? { text: Buffer.from(content).toString(), encoding: 'utf8' } : content

export const json = (answer: Answer): unknown => JSON.parse(answer.text)

export function assertRefused(
  answer: Answer,
  status: number,
  code: string,
  message?: string | RegExp,
  retryable?: boolean,
): void {
  assert.deepEqual([answer.status, answer.headers['content-type']], [status, 'application/json'], answer.text)
  const body = json(answer) as { error: { code: string; message: string; action: string; retryable: boolean } }
  assert.deepEqual(Object.keys(body), ['api_version', 'error'])
  assert.deepEqual(Object.keys(body.error), ['code', 'message', 'action', 'retryable'])
  assert.equal(body.error.code, code, answer.text)
  assert.notEqual(body.error.message, '')
  assert.notEqual(body.error.action, '')
  if (typeof message === 'string') assert.equal(body.error.message, message)
  else if (message) assert.match(body.error.message, message)
  if (retryable !== undefined) assert.equal(body.error.retryable, retryable)
}
