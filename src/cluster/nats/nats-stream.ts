/**
 * The stream of a log on NATS JetStream: found or made, checked, written to, read.
 *
 * J1  a publish without an answer is unknown, never refused: only the server's comparison of sequences refuses
 * J2  a stream that exists is never changed: if it is not as it has to be, the start fails and names the setting that is wrong
 * J3  a server that answers no message for some time is given up for another one: it may be cut off from the others, and still answer pings and questions
 *     about the stream
 * J4  the stream is reached via the server that leads it, if the settings name that server. The leader is looked up every NEAR_MS. If it is another
 *     one, new requests go there as soon as the stream answers via it, and the old connection stays until its own requests are answered. If the stream
 *     does not answer via it, nothing changes
 */
import { jetstreamManager } from '@nats-io/jetstream'
import type { JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import type { NatsConnection, NodeConnectionOptions } from '@nats-io/transport-node'
import { StoreError, messageOf as textOfError } from '../../errors.ts'
import { headersOf, placeOf, readMessage, textOf } from '../headers.ts'
import type { StreamMessage } from '../headers.ts'
import { STREAM_BEGIN } from '../history.ts'
import type { Anchor } from '../history.ts'
import { LOG_BEGIN } from '../message.ts'
import type { LogPlace } from '../message.ts'
import { BodyPacker, PACKED_HEADER } from '../packed-body.ts'
import { bodyBytesMaxOf, checkServer, connectTo, connectToNamed } from './connection.ts'
import { Replies } from './replies.ts'
import { StreamReader } from './stream-reader.ts'
import type { Following } from './stream-reader.ts'

export interface NatsStreamOptions {
  readonly connection: NodeConnectionOptions
  /** The name that all nodes of the cluster share; letters, digits, `-` and `_`. */
  readonly cluster: string
  /** The service whose log it is. */
  readonly service: string
  readonly replicas: number
  readonly keepBytes: number
  /** Null: age alone removes nothing. */
  readonly keepMs: number | null
  /** The log on this machine, with which a new stream goes on. Null: there is none yet, and this node takes the stream's. */
  readonly log: { readonly id: number; readonly end: LogPlace; readonly epoch: number } | null
  readonly randomUint32: () => number
  /** Monotonic. */
  readonly nowMs: () => number
  /** Calls once; the returned function prevents it. */
  readonly after: (delayMs: number, run: () => void) => () => void
}

export type Published =
  | { readonly kind: 'stored'; readonly sequence: number }
  | { readonly kind: 'refused' }
  /** J1 */
  | { readonly kind: 'unknown'; readonly reason: string }

/** Format in the metadata of the stream. */
const FORMAT = '1'
const REQUEST_MS = 5000
/** J3. Longer than the servers take to choose another leader of the stream. */
const UNANSWERED_MS = 10_000
/** J4 */
const NEAR_MS = 10_000
/** Instead of NEAR_MS, after the server that leads could not be reached. */
const NEAR_AGAIN_MS = 120_000
const RETIRED_LOOK_MS = 100
const NANOSECONDS_PER_MS = 1e6

const WRONG_LAST_SEQUENCE = new Set([10071, 10164])
const STREAM_NOT_FOUND = 10059
const STREAM_NAME_IN_USE = 10058
const NOT_ENABLED_FOR_ACCOUNT = 10039

/** A connection with its manager, and the requests that go by it. */
interface Line {
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
  readonly replies: Replies
}

export class NatsStream {
  readonly logId: number
  /** The history before the stream's first message, which begins where this ends. */
  readonly begin: Anchor
  /** The sequence of the first message that it still had when it was opened. */
  readonly first: number
  /** The most bytes that the body of a message may have. */
  readonly bodyBytesMax: number
  readonly name: string
  readonly #options: NatsStreamOptions
  readonly #subject: string
  readonly #nowMs: () => number
  readonly #after: NatsStreamOptions['after']
  #line: Line
  /** J4. Earlier lines that are not closed yet. */
  readonly #retired = new Set<Line>()
  #cancelNear = (): void => {}
  #onNodes: ((text: string) => void) | null = null
  #isClosed = false
  readonly #packer = new BodyPacker()
  readonly #readers = new Set<StreamReader>()
  /** J3. Null: the last message was answered. */
  #unansweredSinceMs: number | null = null

  /** @throws StoreError that names the setting which is wrong; unavailable when no server answers */
  static async open(options: NatsStreamOptions): Promise<NatsStream> {
    const connection = await connectTo(options.connection)
    try {
      checkServer(connection)
      const line = await lineOf(connection, options)
      const info = await findOrMake(line.manager, options)
      const stream = new NatsStream(line, options, checkStream(info, options))
      if (stream.#isFar(info)) await stream.#moveTo(info.cluster!.leader!) // J4
      stream.#lookSoon(NEAR_MS)
      return stream
    } catch (error) {
      await connection.close()
      throw error
    }
  }

  private constructor(
    line: Line,
    options: NatsStreamOptions,
    { logId, begin, first }: Pick<NatsStream, 'logId' | 'begin' | 'first'>,
  ) {
    this.#line = line
    this.#options = options
    this.#subject = subjectOf(options)
    this.#nowMs = options.nowMs
    this.#after = options.after
    this.name = nameOf(options)
    this.logId = logId
    this.begin = begin
    this.first = first
    this.bodyBytesMax = bodyBytesMaxOf(line.connection)
    void this.#endReadersOf(line.connection)
  }

  async publish(expectedLast: number, message: StreamMessage): Promise<Published> {
    const sent = headers()
    for (const [name, value] of headersOf(message)) sent.set(name, value)
    sent.set('Nats-Expected-Last-Sequence', String(expectedLast))
    sent.set('Nats-Expected-Stream', this.name)
    const packed = message.body && this.#packer.pack(message.body)
    if (packed) sent.set(PACKED_HEADER, packed.header)
    const body = packed?.body ?? message.body ?? NOTHING
    const sentMs = this.#nowMs()
    try {
      const answer = await this.#line.replies.ask(this.#subject, body, sent)
      const published = readAnswer(answer.json())
      this.#unansweredSinceMs = null
      return published
    } catch (error) {
      this.#leaveIfSilent(sentMs)
      return { kind: 'unknown', reason: textOfError(error) }
    }
  }

  /** @returns null: this server knows of no message there; undefined: no server answered */
  async lookUp(sequence: number): Promise<StreamMessage | null | undefined> {
    try {
      const found = await this.#line.manager.streams.getMessage(this.name, { seq: sequence })
      return found && readMessage(found.header, found.data)
    } catch {
      return undefined
    }
  }

  /** The sequences of the first and the last message. @throws Error when no server answers */
  async ends(): Promise<{ readonly first: number; readonly last: number }> {
    const { state } = await this.#line.manager.streams.info(this.name)
    return { first: Math.max(1, state.first_seq), last: state.last_seq }
  }

  /**
   * Delivers the messages from a sequence on, until the returned function is called or the reader has ended. If the stream begins later, delivery
   * begins there.
   *
   * @throws Error when no server answers
   */
  async follow(from: number, following: Following): Promise<() => void> {
    const line = this.#line
    const { connection, manager } = line
    const parts = { connection, consumers: manager.consumers, stream: this.name, after: this.#after }
    const reader = await StreamReader.open(parts, from, following)
    if (line !== this.#line) {
      reader.close()
      throw new Error('another server leads the stream now')
    }
    this.#readers.add(reader)
    return () => {
      this.#readers.delete(reader)
      reader.close()
    }
  }

  /** After a disconnect the client may be on another server, which does not know the requests of a reader. */
  async #endReadersOf(connection: NatsConnection): Promise<void> {
    for await (const { type } of connection.status()) {
      if (type === 'disconnect' && connection === this.#line.connection) this.#endReaders()
    }
  }

  #endReaders(): void {
    const readers = [...this.#readers]
    this.#readers.clear()
    for (const reader of readers) reader.end()
  }

  /** Sends a text to the other nodes, beside the stream and without a guarantee. */
  sendToNodes(text: string): void {
    this.#line.connection.publish(`${this.#subject}.nodes`, text)
  }

  /** Receives the texts of all nodes, this one included, until the stream is closed. */
  receiveFromNodes(receive: (text: string) => void): void {
    this.#onNodes = receive
    this.#receiveFromNodesBy(this.#line)
  }

  #receiveFromNodesBy({ connection }: Line): void {
    const receive = this.#onNodes
    if (receive === null) return
    connection.subscribe(`${this.#subject}.nodes`, {
      callback: (error, message) => {
        if (error === null) receive(message.string())
      },
    })
  }

  /** J3 */
  #leaveIfSilent(sentMs: number): void {
    const nowMs = this.#nowMs()
    this.#unansweredSinceMs ??= sentMs
    if (nowMs - this.#unansweredSinceMs < UNANSWERED_MS) return
    this.#unansweredSinceMs = nowMs
    this.#line.connection.reconnect().catch(() => {}) // it is closed
  }

  /** J4 */
  #lookSoon(delayMs: number): void {
    if (!this.#isClosed) this.#cancelNear = this.#after(delayMs, () => void this.#lookNear())
  }

  async #lookNear(): Promise<void> {
    const info = await this.#line.manager.streams.info(this.name).catch(() => null)
    const isFar = info !== null && this.#isFar(info)
    const hasMoved = isFar && !this.#isClosed && (await this.#moveTo(info.cluster!.leader!))
    this.#lookSoon(isFar && !hasMoved ? NEAR_AGAIN_MS : NEAR_MS)
  }

  #isFar({ cluster }: StreamInfo): boolean {
    const leader = cluster?.leader
    return leader !== undefined && leader !== '' && leader !== this.#line.connection.info?.server_name
  }

  /** Reaches the stream via the server of that name from here on. @returns false: that is not possible, and nothing has changed */
  async #moveTo(name: string): Promise<boolean> {
    const line = await this.#lineTo(name)
    if (line === null) return false
    this.#retired.add(this.#line)
    this.#line = line
    void this.#endReadersOf(line.connection)
    this.#endReaders()
    this.#closeRetired()
    return true
  }

  /** Null: that server cannot be reached, or the stream cannot be used via it. */
  async #lineTo(name: string): Promise<Line | null> {
    const connection = await connectToNamed(this.#options.connection, name)
    if (connection === null) return null
    try {
      const line = await lineOf(connection, this.#options)
      await line.manager.streams.info(this.name)
      if (!this.#isClosed && bodyBytesMaxOf(connection) >= this.bodyBytesMax) {
        this.#receiveFromNodesBy(line)
        return line
      }
    } catch {
      // The server may be cut off from the others, or shutting down.
    }
    await connection.close()
    return null
  }

  /** J4. Closes earlier lines whose requests are all answered. */
  #closeRetired(): void {
    if (this.#isClosed) return
    for (const line of this.#retired) {
      if (line.replies.isBusy) continue
      this.#retired.delete(line)
      void closeLine(line)
    }
    if (this.#retired.size > 0) this.#after(RETIRED_LOOK_MS, () => this.#closeRetired())
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelNear()
    for (const reader of this.#readers) reader.close()
    await Promise.all([this.#line, ...this.#retired].map((line) => closeLine(line)))
  }
}

const NOTHING = new Uint8Array(0)

const nameOf = ({ cluster, service }: NatsStreamOptions): string => `trilog-${cluster}-${service}`
const subjectOf = ({ cluster, service }: NatsStreamOptions): string => `trilog.${cluster}.${service}`

const managerOf = (connection: NatsConnection): Promise<JetStreamManager> =>
  jetstreamManager(connection, { timeout: REQUEST_MS, checkAPI: false })

async function lineOf(connection: NatsConnection, { nowMs, after }: NatsStreamOptions): Promise<Line> {
  const manager = await managerOf(connection)
  return { connection, manager, replies: new Replies({ connection, nowMs, after }) }
}

async function closeLine({ connection, replies }: Line): Promise<void> {
  replies.close()
  await connection.close()
}

/** J2 */
async function findOrMake(manager: JetStreamManager, options: NatsStreamOptions): Promise<StreamInfo> {
  const name = nameOf(options)
  try {
    return await manager.streams.info(name)
  } catch (error) {
    if (codeOf(error) !== STREAM_NOT_FOUND) throw unusable(error)
  }
  try {
    return await manager.streams.add(configOf(options))
  } catch (error) {
    if (codeOf(error) === STREAM_NAME_IN_USE) return manager.streams.info(name) // another node was faster
    if (/replicas|peers/.test(textOfError(error))) {
      throw invalid(
        `TRILOG_CLUSTER_REPLICAS is ${options.replicas}, and the NATS servers cannot keep so many: ${textOfError(error)}`,
      )
    }
    if (/storage|maximum bytes|resource/.test(textOfError(error))) {
      throw invalid(
        `TRILOG_CLUSTER_KEEP_BYTES is ${options.keepBytes}, and the NATS servers have no room for it: ${textOfError(error)}`,
      )
    }
    throw unusable(error)
  }
}

const configOf = (options: NatsStreamOptions): Partial<StreamConfig> & Pick<StreamConfig, 'name'> => ({
  name: nameOf(options),
  subjects: [subjectOf(options)],
  storage: 'file',
  retention: 'limits',
  discard: 'old',
  num_replicas: options.replicas,
  max_bytes: options.keepBytes,
  max_age: (options.keepMs ?? 0) * NANOSECONDS_PER_MS,
  // Look-ups go to the stream's leader only: the answer of a server that is behind would cost one more publish.
  allow_direct: false,
  deny_delete: true,
  deny_purge: true,
  metadata: {
    'trilog-format': FORMAT,
    'trilog-cluster': options.cluster,
    'trilog-service': options.service,
    'trilog-log': hex(options.log?.id ?? options.randomUint32()),
    'trilog-begin': `${options.log?.epoch ?? 0}/${textOf(options.log?.end ?? LOG_BEGIN)}`,
  },
})

/** J2. @returns the id of the log, and what the stream goes on with */
function checkStream(
  { config, state }: StreamInfo,
  options: NatsStreamOptions,
): Pick<NatsStream, 'logId' | 'begin' | 'first'> {
  const { metadata = {}, name } = config
  const is = (key: string, value: string): boolean => metadata[`trilog-${key}`] === value
  const log = metadata['trilog-log'] ?? ''
  const isOurs = is('cluster', options.cluster) && is('service', options.service) && /^[0-9a-f]{8}$/.test(log)
  if (!isOurs)
    throw invalid(
      `TRILOG_CLUSTER_NAME: the stream ${name} is there already, and is not of this cluster: choose another name`,
    )
  if (!is('format', FORMAT)) {
    throw invalid(
      `TRILOG_CLUSTER_NAME: the stream ${name} is of format ${metadata['trilog-format']}, this version knows ${FORMAT}: upgrade`,
    )
  }
  if (config.num_replicas !== options.replicas) {
    throw invalid(`TRILOG_CLUSTER_REPLICAS is ${options.replicas}, but the stream ${name} has ${config.num_replicas}`)
  }
  const isSafe = config.storage === 'file' && config.retention === 'limits' && config.discard === 'old'
  if (!isSafe || config.subjects.join() !== subjectOf(options)) {
    throw invalid(
      `TRILOG_CLUSTER_NAME: the stream ${name} was changed: it has to keep ${subjectOf(options)} in files, by limits, discarding old messages`,
    )
  }
  const logId = Number.parseInt(log, 16)
  if (options.log !== null && options.log.id !== logId) {
    throw invalid(
      `TRILOG_CLUSTER_NAME: the stream ${name} holds log ${log}, this data directory log ${hex(options.log.id)}: choose another name, or an empty data directory`,
    )
  }
  const [, epoch, place] = /^(\d+)\/(.+)$/.exec(metadata['trilog-begin'] ?? '') ?? []
  const end = placeOf(place ?? '') ?? LOG_BEGIN
  return { logId, first: Math.max(1, state.first_seq), begin: { ...STREAM_BEGIN, epoch: Number(epoch ?? 0), end } }
}

interface Answer {
  readonly seq?: number
  readonly error?: { readonly err_code?: number; readonly description?: string }
}

/** J1. @throws Error with any other answer of the server */
function readAnswer({ seq, error }: Answer): Published {
  if (error === undefined && seq !== undefined) return { kind: 'stored', sequence: seq }
  if (WRONG_LAST_SEQUENCE.has(error?.err_code ?? 0)) return { kind: 'refused' }
  throw new Error(error?.description ?? 'the server gave no sequence')
}

const codeOf = (error: unknown): number =>
  typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'number' ? error.code : 0

const hex = (logId: number): string => logId.toString(16).padStart(8, '0')
const invalid = (message: string): StoreError => new StoreError('invalid', 'cluster_setting_wrong', message)
const unavailable = (message: string): StoreError => new StoreError('unavailable', 'cluster_unavailable', message)
const unusable = (error: unknown): StoreError =>
  codeOf(error) === NOT_ENABLED_FOR_ACCOUNT
    ? invalid('TRILOG_CLUSTER_SERVERS: JetStream is off for the account of these credentials: turn it on there')
    : unavailable(`TRILOG_CLUSTER_SERVERS: JetStream cannot be used: ${textOfError(error)}`)
