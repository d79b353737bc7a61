/** The object store as a real process, and requests to it as they are on the wire: no client library corrects paths, hosts or headers. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { parseTree } from './documents.ts'
import type { XmlNode } from './documents.ts'
import { Connection, HttpReply } from './http.ts'
import { temporaryDirectory } from './directories.ts'
import { RunningService, launch, runToEnd } from './process.ts'
import type { Command, Ending, Environment, Launched } from './process.ts'
import { LIMIT_MS } from './waiting.ts'

/** A connection that was idle for longer is not used again: the store closes it after about 10 s, perhaps just when the next request comes. */
const IDLE_MS_MAX = 4000

export type Texts = Readonly<Record<string, string>>

/** Category of a refusal, as in `x-obj-error-category`. */
type Category = 'client' | 'auth' | 'not-found' | 'conflict' | 'limit' | 'throttle' | 'server'

/** Statuses of the contract "Object store", categories of its list of headers, and the codes that it leaves to S3. */
const CODES: Readonly<Record<string, readonly [status: number, category: Category]>> = {
  NotImplemented: [501, 'client'],
  AccessDenied: [403, 'auth'],
  NoSuchBucket: [404, 'not-found'],
  NoSuchKey: [404, 'not-found'],
  NoSuchUpload: [404, 'not-found'],
  NoSuchCORSConfiguration: [404, 'not-found'],
  NoSuchBucketPolicy: [404, 'not-found'],
  BucketAlreadyOwnedByYou: [409, 'conflict'],
  BucketAlreadyExists: [409, 'conflict'],
  BucketNotEmpty: [409, 'conflict'],
  BadDigest: [400, 'client'],
  InvalidDigest: [400, 'client'],
  EntityTooLarge: [400, 'limit'],
  EntityTooSmall: [400, 'limit'],
  InvalidPart: [400, 'client'],
  InvalidPartOrder: [400, 'client'],
  MalformedXML: [400, 'client'],
  InvalidArgument: [400, 'client'],
  InvalidTag: [400, 'client'],
  MetadataTooLarge: [400, 'limit'],
  InvalidRange: [416, 'client'],
  InvalidURI: [400, 'client'],
  PreconditionFailed: [412, 'conflict'],
  XAmzContentSHA256Mismatch: [400, 'client'],
  SignatureDoesNotMatch: [403, 'auth'],
  InvalidAccessKeyId: [403, 'auth'],
  RequestTimeTooSkewed: [403, 'auth'],
  AuthorizationHeaderMalformed: [400, 'auth'],
  AuthorizationQueryParametersError: [400, 'auth'],
  BadRequest: [400, 'client'],
  IllegalLocationConstraintException: [400, 'client'],
  IncompleteBody: [400, 'client'],
  InvalidBucketName: [400, 'client'],
  InvalidChunkSizeError: [400, 'client'],
  InvalidEncryptionAlgorithmError: [400, 'client'],
  InvalidLocationConstraint: [400, 'client'],
  InvalidPartNumber: [416, 'client'],
  InvalidPolicyDocument: [400, 'client'],
  InvalidRequest: [400, 'client'],
  InvalidStorageClass: [400, 'client'],
  KeyTooLongError: [400, 'limit'],
  MalformedPOSTRequest: [400, 'client'],
  MalformedPolicy: [400, 'client'],
  MalformedTrailerError: [400, 'client'],
  MaxPostPreDataLengthExceededError: [400, 'limit'],
  MissingContentLength: [411, 'client'],
  RequestHeaderSectionTooLarge: [400, 'limit'],
}

const SERVICES = ['--services', 'objectstore']

/** A start that is expected to fail. */
export const failToStartObjectStore = (env: Environment): Promise<Ending> =>
  runToEnd({
    entry: 'src/start.js',
    args: SERVICES,
    env: { OBJSTORE_BIND_ADDRESS: '127.0.0.1:0', OBJSTORE_DATA_DIR: `${temporaryDirectory()}/data`, ...env },
  })

export interface AccessKey {
  readonly access_key_id: string
  readonly secret_access_key: string
  readonly principal: string
  readonly permissions: readonly string[]
}

export interface ObjectStoreOptions {
  readonly env?: Environment
  /** Keys of the credentials file. With them, requests must be signed. */
  readonly keys?: readonly AccessKey[]
}

export interface RequestOptions {
  readonly headers?: OutgoingHttpHeaders
  readonly body?: Uint8Array | string
}

export class ObjectStoreServer extends RunningService {
  readonly dataDirectory: string
  readonly #credentialsFile: string
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS_MAX })
  #buckets = 0

  static async start({ env = {}, keys }: ObjectStoreOptions = {}): Promise<ObjectStoreServer> {
    const directory = temporaryDirectory()
    const credentialsFile = `${directory}/credentials.json`
    if (keys) writeFileSync(credentialsFile, JSON.stringify({ keys }))
    const settings = {
      OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
      OBJSTORE_DATA_DIR: `${directory}/data`,
      ...(keys && { OBJSTORE_AUTH_MODE: 'sigv4', OBJSTORE_CREDENTIALS_FILE: credentialsFile }),
      ...env,
    }
    const command: Command = { entry: 'src/start.js', args: SERVICES, env: settings }
    return new ObjectStoreServer(settings.OBJSTORE_DATA_DIR, credentialsFile, command, await launch(command))
  }

  private constructor(dataDirectory: string, credentialsFile: string, command: Command, launched: Launched) {
    super(command, launched)
    this.dataDirectory = dataDirectory
    this.#credentialsFile = credentialsFile
  }

  /** Writes the credentials file, which the store reads on SIGHUP. */
  writeKeys(keys: readonly AccessKey[] | string): void {
    writeFileSync(this.#credentialsFile, typeof keys === 'string' ? keys : JSON.stringify({ keys }))
  }

  /** @param target raw: percent-encoded, with its query */
  async request(method: string, target: string, { headers = {}, body }: RequestOptions = {}): Promise<ObjectReply> {
    const { hostname, port } = new URL(this.url)
    const bytes = body === undefined ? null : Buffer.from(body)
    const message = await new Promise<IncomingMessage>((resolve, reject) => {
      const asking = request({
        hostname,
        port,
        method,
        path: target,
        agent: this.#agent,
        signal: AbortSignal.timeout(LIMIT_MS),
        headers: {
          ...(bytes !== null && !('transfer-encoding' in headers) && { 'content-length': bytes.length }),
          ...headers,
        },
      })
      asking.once('response', resolve).once('error', reject)
      asking.end(bytes)
    })
    const pieces: Buffer[] = []
    for await (const piece of message) pieces.push(piece as Buffer) // chunks are Buffers, as no encoding is set
    const lines = Object.entries(message.headersDistinct).flatMap(([name, values]) =>
      values!.map((value): [string, string] => [name, value]),
    )
    return new ObjectReply(message.statusCode!, new Headers(lines), Buffer.concat(pieces), method === 'HEAD')
  }

  connect(): Promise<Connection<ObjectReply>> {
    return Connection.open(this.readyLine.http, ObjectReply)
  }

  /** A new bucket under a name of its own: tests share a process, not their buckets. */
  async newBucket(): Promise<TestBucket> {
    const bucket = new TestBucket(this, `bucket-${this.#buckets++}`)
    ;(await bucket.ask('PUT', '')).succeeded(200)
    return bucket
  }

  override async stop(): Promise<void> {
    this.#agent.destroy()
    await super.stop()
  }
}

export class ObjectReply extends HttpReply {
  readonly #isToHead: boolean

  constructor(status: number, headers: Headers, bytes: Buffer, isToHead = false) {
    super(status, headers, bytes)
    this.#isToHead = isToHead
  }

  header(name: string): string | null {
    return this.headers.get(name)
  }

  succeeded(status: number): this {
    assert.equal(this.status, status, this.text)
    return this
  }

  /** The document of a success, whose root must have this name and S3's namespace. */
  document(root: string): XmlDocument {
    assert.equal(this.status, 200, this.text)
    assert.equal(this.header('content-type'), 'application/xml')
    const tree = parseTree(this.text)
    assert.deepEqual([tree.name, tree.namespace], [root, 'http://s3.amazonaws.com/doc/2006-03-01/'])
    return new XmlDocument(tree)
  }

  /** The refusal's document, which must agree with its headers and with the contract. */
  refused(code: string): XmlDocument {
    const [status, category] = CODES[code] ?? assert.fail(`${code} is none of ours`)
    assert.deepEqual([this.header('x-obj-error-code'), this.status], [code, status], this.text)
    assert.equal(this.header('x-obj-error-category'), category)
    assert.equal(this.header('x-obj-error-retryable'), 'false')
    assert.equal(this.header('x-obj-error-redacted'), 'false')
    if (this.#isToHead) {
      assert.equal(this.bytes.length, 0, 'HEAD is answered without a body')
      return new XmlDocument({ name: 'Error', namespace: null, children: [], text: '' })
    }
    assert.equal(this.header('content-type'), 'application/xml')
    const document = new XmlDocument(parseTree(this.text))
    const shown = ['Code', 'RequestId'].map((name) => document.text(name))
    assert.deepEqual(shown, [code, this.header('x-obj-request-id')])
    assert.notEqual(document.text('Message'), '')
    assert.notEqual(document.text('HostId'), '')
    return document
  }
}

/** Reads a document by paths of element names: `Contents/Key`. */
export class XmlDocument {
  readonly #root: XmlNode

  constructor(root: XmlNode) {
    this.#root = root
  }

  get rootText(): string {
    return this.#root.text
  }

  all(path: string): readonly XmlDocument[] {
    let nodes = [this.#root]
    for (const name of path.split('/')) nodes = nodes.flatMap(({ children }) => children.filter((c) => c.name === name))
    return nodes.map((node) => new XmlDocument(node))
  }

  texts(path: string): readonly string[] {
    return this.all(path).map((each) => each.rootText)
  }

  /** Text of the one element at this path; null: there is none. */
  text(path: string): string | null {
    const texts = this.texts(path)
    assert(texts.length <= 1, `${path} is there ${texts.length} times`)
    return texts[0] ?? null
  }

  /** Names of the elements in it, in their order. */
  get names(): readonly string[] {
    return this.#root.children.map(({ name }) => name)
  }
}

export class TestBucket {
  readonly server: ObjectStoreServer
  readonly name: string

  constructor(server: ObjectStoreServer, name: string) {
    this.server = server
    this.name = name
  }

  /** @param rest what follows the bucket's name: '', '/key', '?query' */
  ask(method: string, rest: string, options?: RequestOptions): Promise<ObjectReply> {
    return this.server.request(method, `/${this.name}${rest}`, options)
  }

  async put(key: string, body: Uint8Array | string = 'body', headers: OutgoingHttpHeaders = {}): Promise<ObjectReply> {
    return (await this.ask('PUT', `/${encodeURIComponent(key)}`, { body, headers })).succeeded(200)
  }

  async read(key: string): Promise<string> {
    return (await this.ask('GET', `/${encodeURIComponent(key)}`)).succeeded(200).text
  }

  async keys(query = ''): Promise<readonly string[]> {
    return (await this.ask('GET', `?list-type=2${query}`)).document('ListBucketResult').texts('Contents/Key')
  }

  async newUpload(key: string, headers: OutgoingHttpHeaders = {}): Promise<TestUpload> {
    const reply = await this.ask('POST', `/${key}?uploads`, { headers })
    return new TestUpload(this, key, reply.document('InitiateMultipartUploadResult').text('UploadId')!)
  }
}

export class TestUpload {
  readonly bucket: TestBucket
  readonly key: string
  readonly id: string

  constructor(bucket: TestBucket, key: string, id: string) {
    this.bucket = bucket
    this.key = key
    this.id = id
  }

  /** @param query further parameters, with their ampersand */
  ask(method: string, query = '', options?: RequestOptions): Promise<ObjectReply> {
    return this.bucket.ask(method, `/${this.key}?uploadId=${encodeURIComponent(this.id)}${query}`, options)
  }

  /** @returns the ETag */
  async part(number: number, body: Uint8Array | string): Promise<string> {
    return (await this.ask('PUT', `&partNumber=${number}`, { body })).succeeded(200).header('etag')!
  }

  complete(
    parts: readonly (readonly [number: number, etag: string])[],
    headers: OutgoingHttpHeaders = {},
  ): Promise<ObjectReply> {
    const listed = parts.map(([number, etag]) => `<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag></Part>`)
    const body = `<CompleteMultipartUpload>${listed.join('')}</CompleteMultipartUpload>`
    return this.ask('POST', '', { body, headers })
  }
}

/** Name, content and, for a file, its file name. */
