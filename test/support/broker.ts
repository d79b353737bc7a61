/** The broker as a real process, started by the `mq` command, and requests to its API. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import type { Validator } from 'typebox/schema'
import { REFUSALS } from '../../src/broker/refusals.ts'
import type { RefusalCode, RefusalDetail } from '../../src/broker/refusals.ts'
import {
  CursorListReply,
  DelayedListReply,
  GroupReply,
  LeaseListReply,
  ReplayConsumerListReply,
} from '../../src/broker/wire/group-answers.ts'
import { ClaimReply } from '../../src/broker/wire/queue-answers.ts'
import {
  CreateStreamReply,
  PublishBatchReply,
  PublishReply,
  ReplayReply,
  StreamReply,
} from '../../src/broker/wire/record-answers.ts'
import type { ClaimBody, CreateStreamBody, PublishBody } from '../../src/broker/wire/requests.ts'
import { Connection, HttpReply, JSON_TYPE, send } from './http.ts'
import type { RequestBody } from './http.ts'
import { temporaryDirectory } from './directories.ts'
import { RunningService, launch, runToEnd } from './process.ts'
import type { Command, Ending, Environment, Launched } from './process.ts'

const command = (flags: readonly string[], env: Environment): Command => ({
  entry: 'src/cli/mq.js',
  args: ['--http-bind', '127.0.0.1:0', ...flags],
  env,
})

/** A start that is expected to fail. */
export const failToStartBroker = (flags: readonly string[], env: Environment = {}): Promise<Ending> =>
  runToEnd(command(flags, { MQ_DATA_DIR: `${temporaryDirectory()}/data`, ...env }))

export interface BrokerOptions {
  readonly flags?: readonly string[]
  /** Quota of the tenant of insecure-local; written to the quotas file. */
  readonly quota?: object
  readonly env?: Environment
  readonly dataDirectory?: string
}

export class BrokerServer extends RunningService {
  readonly directory: string
  readonly dataDirectory: string
  readonly #quotasFile: string
  #streams = 0

  static async start({ flags = [], quota, env = {}, ...options }: BrokerOptions = {}): Promise<BrokerServer> {
    const directory = temporaryDirectory()
    const { dataDirectory = `${directory}/data` } = options
    const quotasFile = `${directory}/quotas.json`
    if (quota) writeFileSync(quotasFile, quotasText(quota))
    const quotas = quota ? ['--quotas-file', quotasFile] : []
    const how = command(['--data-dir', dataDirectory, ...quotas, ...flags], env)
    return new BrokerServer(directory, dataDirectory, how, await launch(how))
  }

  private constructor(directory: string, dataDirectory: string, command: Command, launched: Launched) {
    super(command, launched)
    this.directory = directory
    this.dataDirectory = dataDirectory
    this.#quotasFile = `${directory}/quotas.json`
  }

  /** Writes the quotas file, which the broker reads on SIGHUP. */
  writeQuota(quota: object | string): void {
    writeFileSync(this.#quotasFile, typeof quota === 'string' ? quota : quotasText(quota))
  }

  async request(
    method: string,
    path: string,
    body: RequestBody = null,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<BrokerReply> {
    const all = new Headers(headers)
    if (body !== null && !all.has('content-type')) all.set('content-type', JSON_TYPE)
    const reply = await send(BrokerReply, method, `${this.url}${path}`, body, all)
    assert.notEqual(reply.headers.get('x-request-id') ?? '', '', 'every response carries a request id')
    return reply
  }

  /** The body of a GET that succeeds. */
  async get<Schema extends TSchema>(path: string, schema: Schema): Promise<Static<Schema>> {
    return (await this.request('GET', path)).succeeded(schema)
  }

  connect(): Promise<Connection<BrokerReply>> {
    return Connection.open(this.readyLine.http, BrokerReply)
  }

  /** A new stream under a name of its own: tests share a process, not their streams. */
  async newStream(body: CreateStreamBody | null = null): Promise<Stream> {
    const stream = this.stream(`stream-${this.#streams++}`)
    ;(await stream.put('', body)).succeeded(CreateStreamReply, 201)
    return stream
  }

  stream(name: string): Stream {
    return new Stream(this, name)
  }
}

const quotasText = (quota: object): string => JSON.stringify({ tenants: [{ tenant: 'local', ...quota }] })

const validators = new Map<TSchema, Validator>()

function validatorOf(schema: TSchema): Validator {
  const known = validators.get(schema)
  if (known) return known
  const validator = Compile(schema)
  validators.set(schema, validator)
  return validator
}

export class BrokerReply extends HttpReply {
  /** The body of a success, which must match its schema. */
  succeeded<Schema extends TSchema>(schema: Schema, status = 200): Static<Schema> {
    assert.equal(this.status, status, this.text)
    const body = JSON.parse(this.text) as Static<Schema> // which the next line checks
    assert(validatorOf(schema).Check(body), `not as its schema says: ${this.text}`)
    return body
  }

  /** The body of a refusal, which must be the envelope of the contract and nothing else. */
  refusal(): RefusalDetail {
    const body = this.json() as { api_version: string; error: RefusalDetail } // which the next lines check
    assert.deepEqual(Object.keys(body), ['api_version', 'error'], this.text)
    assert.equal(body.api_version, 'v1')
    const { error } = body
    assert.deepEqual(Object.keys(error), ['code', 'message', 'action', 'retryable'])
    assert(error.message !== '' && error.action !== '' && typeof error.retryable === 'boolean', this.text)
    assert.equal(this.status, REFUSALS[error.code].status)
    return error
  }

  /** Code of a refusal; null: the request succeeded. */
  get code(): RefusalCode | null {
    return this.status < 300 ? null : this.refusal().code
  }
}

export function assertRefused(reply: BrokerReply, status: number, code: RefusalCode, message?: RegExp): void {
  const refusal = reply.refusal()
  assert.deepEqual([reply.status, refusal.code], [status, code], reply.text)
  if (message) assert.match(refusal.message, message)
  const retryAfter = reply.headers.get('retry-after')
  if (status === 429) assert(Number.isInteger(Number(retryAfter)) && Number(retryAfter) >= 1, String(retryAfter))
}

export type ReplayPage = Static<typeof ReplayReply>
export type ReplayedRecord = ReplayPage['records'][number]
export type Claimed = Static<typeof ClaimReply>

export class Stream {
  readonly server: BrokerServer
  readonly name: string

  constructor(server: BrokerServer, name: string) {
    this.server = server
    this.name = name
  }

  get path(): string {
    return `/v1/streams/${encodeURIComponent(this.name)}`
  }

  /** Path of storage administration and of the legacy fetch. */
  get unversionedPath(): string {
    return `/streams/${encodeURIComponent(this.name)}`
  }

  put(path: string, body: RequestBody = null): Promise<BrokerReply> {
    return this.server.request('PUT', `${this.path}${path}`, body)
  }

  post(path: string, body: RequestBody = null): Promise<BrokerReply> {
    return this.server.request('POST', `${this.path}${path}`, body)
  }

  describe(): Promise<Static<typeof StreamReply>> {
    return this.server.get(this.path, StreamReply)
  }

  /** Publishes a record with this payload, or with these fields. */
  async publish(record: string | Partial<PublishBody> = {}): Promise<Static<typeof PublishReply>> {
    const fields = typeof record === 'string' ? { payload: record } : record
    const reply = await this.post('/records', { message_id: 'm', payload: 'p', ...fields })
    return reply.succeeded(PublishReply, 201)
  }

  /** Publishes this many records. Their payloads default to their numbers. */
  async fill(count: number, payloadOf: (number: number) => string = String): Promise<Static<typeof PublishBatchReply>> {
    const records = Array.from({ length: count }, (_, i) => ({ message_id: `m-${i}`, payload: payloadOf(i) }))
    return (await this.post('/records/batch', { records })).succeeded(PublishBatchReply)
  }

  replay(query = ''): Promise<ReplayPage> {
    return this.server.get(`${this.path}/records?${query}`, ReplayReply)
  }

  group(name = 'workers'): Group {
    return new Group(this, name)
  }
}

export class Group {
  readonly stream: Stream
  readonly name: string

  constructor(stream: Stream, name: string) {
    this.stream = stream
    this.name = name
  }

  get path(): string {
    return `${this.stream.path}/consumer-groups/${encodeURIComponent(this.name)}`
  }

  tryClaim(body: RequestBody = null): Promise<BrokerReply> {
    return this.stream.server.request('POST', `${this.path}/claims`, body)
  }

  async claimed(body: ClaimBody | null = null): Promise<Claimed> {
    return (await this.tryClaim(body)).succeeded(ClaimReply)
  }

  async claim(body: ClaimBody | null = null): Promise<Delivery[]> {
    const { deliveries } = await this.claimed(body)
    return deliveries.map((fields) => new Delivery(this, fields))
  }

  async claimOne(body: ClaimBody | null = null): Promise<Delivery> {
    const [delivery] = await this.claim(body)
    assert(delivery, 'there is nothing to claim')
    return delivery
  }

  describe(): Promise<Static<typeof GroupReply>> {
    return this.stream.server.get(this.path, GroupReply)
  }

  leases(includeCompleted = false): Promise<Static<typeof LeaseListReply>> {
    return this.stream.server.get(`${this.path}/leases?include_completed=${includeCompleted}`, LeaseListReply)
  }

  delayed(): Promise<Static<typeof DelayedListReply>> {
    return this.stream.server.get(`${this.path}/delayed`, DelayedListReply)
  }

  replayConsumers(): Promise<Static<typeof ReplayConsumerListReply>> {
    return this.stream.server.get(`${this.path}/replay-consumers`, ReplayConsumerListReply)
  }

  cursors(): Promise<Static<typeof CursorListReply>> {
    return this.stream.server.get(`${this.path}/cursors`, CursorListReply)
  }

  commit(cursor: string, body: RequestBody): Promise<BrokerReply> {
    return this.stream.server.request('PUT', `${this.path}/cursors/${encodeURIComponent(cursor)}`, body)
  }

  rewind(cursor: string, body: RequestBody): Promise<BrokerReply> {
    return this.stream.server.request('POST', `${this.path}/cursors/${encodeURIComponent(cursor)}/rewind`, body)
  }
}

/** A delivery; `fields` are those of the claim's answer. */
export class Delivery {
  readonly group: Group
  readonly fields: Claimed['deliveries'][number]

  constructor(group: Group, fields: Claimed['deliveries'][number]) {
    this.group = group
    this.fields = fields
  }

  get offset(): number {
    return this.fields.offset
  }

  get attempt(): number {
    return this.fields.attempt
  }

  get id(): string {
    return this.fields.delivery_id
  }

  get subscription(): string {
    return this.fields.subscription_id
  }

  get path(): string {
    return `${this.group.stream.path}/subscriptions/${this.subscription}/deliveries/${this.id}`
  }

  post(verb: string, body: RequestBody = null): Promise<BrokerReply> {
    return this.group.stream.server.request('POST', `${this.path}/${verb}`, body)
  }

  ack(): Promise<BrokerReply> {
    return this.post('ack')
  }

  nack(requeue: boolean, reason = 'failed'): Promise<BrokerReply> {
    return this.post('nack', { reason, requeue })
  }

  renew(milliseconds: number): Promise<BrokerReply> {
    return this.post('renew', { extend_by_millis: milliseconds })
  }

  retry(delayMs: number, reason = 'later'): Promise<BrokerReply> {
    return this.post('retry', { reason, delay_millis: delayMs })
  }

  deadLetter(target: string, reason = 'poison'): Promise<BrokerReply> {
    return this.post('dead-letter', { dead_letter_stream: target, reason })
  }
}
