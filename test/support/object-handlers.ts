/** Runs handlers of objects without HTTP: requests are made as the gateway makes them, and the store is in memory. */
import type { Answer as EngineAnswer } from '../../src/engine/decision.ts'
import { finishBody } from '../../src/objectstore/finish-body.ts'
import assert from 'node:assert/strict'
import { ALL_PERMISSIONS } from '../../src/objectstore/s3/auth/principal.ts'
import type { Caller } from '../../src/objectstore/s3/auth/request-identity.ts'
import { AwsChunkedDecoder } from '../../src/objectstore/s3/body/aws-chunked.ts'
import type { AwsChunkedFraming } from '../../src/objectstore/s3/body/aws-chunked.ts'
import type {
  Answer,
  BodyChunks,
  BucketHandler,
  FormHandler,
  CollectedBody,
  GatewayContext,
  GatewayRequest,
  ObjectHandler,
  PipedBody,
  RequestBody,
  HeaderLine,
} from '../../src/objectstore/s3/handler.ts'
import { putObject } from '../../src/objectstore/s3/objects/put-object.ts'
import { DocumentGate } from '../../src/objectstore/s3/document-gate.ts'
import { Pace } from '../../src/objectstore/s3/pace.ts'
import { UNCONDITIONAL } from '../../src/objectstore/operations.ts'
import type { BodyWriter, Bucket } from '../../src/objectstore/operations.ts'
import { S3Error, refuse } from '../../src/objectstore/refusals.ts'
import type { RefusalCode, RefusalFields } from '../../src/objectstore/refusals.ts'
import { answerWith } from './answer-with.ts'
import { MemoryStore } from './memory-store.ts'
import { PLAIN } from './object-attributes.ts'

type Texts = Readonly<Record<string, string>>

export interface RequestParts {
  readonly query?: Texts
  readonly headers?: Texts
  readonly body?: FakeBody | Uint8Array | string
  /** Null: anonymous. */
  readonly principal?: string | null
  readonly url?: string
}

/** A body that comes in pieces, and can be taken once. */
export class FakeBody implements RequestBody {
  readonly contentLength: number | null
  readonly #pieces: readonly Uint8Array[]
  wasTaken = false
  /** Number of pieces that a sink was given. */
  given = 0

  constructor(bytes: Uint8Array, { pieceBytes = 7_001, isDeclared = true } = {}) {
    this.contentLength = isDeclared ? bytes.length : null
    this.#pieces = Array.from({ length: Math.ceil(bytes.length / pieceBytes) }, (_, i) =>
      bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes),
    )
  }

  async collect(limitBytes: number, framing: AwsChunkedFraming | null): Promise<CollectedBody> {
    const pieces: Buffer[] = []
    const trailer = await this.#payload(limitBytes, framing, (bytes) => {
      pieces.push(Buffer.from(bytes))
      return null
    })
    return { bytes: Buffer.concat(pieces), trailer }
  }

  pipe(
    limitBytes: number,
    framing: AwsChunkedFraming | null,
    writer: BodyWriter,
    answer: EngineAnswer<PipedBody>,
  ): void {
    answerWith(answer, this.#pipe(limitBytes, framing, writer))
  }

  async #pipe(limitBytes: number, framing: AwsChunkedFraming | null, writer: BodyWriter): Promise<PipedBody> {
    try {
      const trailer = await this.#payload(limitBytes, framing, (bytes) =>
        writer.write(bytes) ? null : new Promise((resolve) => writer.onDrain(resolve)),
      )
      return { received: await finishBody(writer), trailer }
    } catch (error) {
      writer.abandon()
      throw error
    }
  }

  async read(sink: BodyChunks): Promise<void> {
    assert(!this.wasTaken, 'a body is taken once')
    this.wasTaken = true
    for (const piece of this.#pieces) {
      this.given++
      await sink.chunk(piece)
    }
  }

  async #payload(
    limitBytes: number,
    framing: AwsChunkedFraming | null,
    take: (bytes: Uint8Array) => Promise<void> | null,
  ): Promise<string | null> {
    let payloadBytes = 0
    let pause: Promise<void> | null = null
    const sink = (bytes: Uint8Array): void => {
      payloadBytes += bytes.length
      if (payloadBytes > limitBytes) throw refuse('EntityTooLarge')
      pause = take(bytes)
    }
    const decoder = framing === null ? null : new AwsChunkedDecoder(framing, sink)
    await this.read({
      chunk(bytes) {
        if (decoder === null) sink(bytes)
        else decoder.push(bytes)
        const pausing = pause
        pause = null
        return pausing
      },
    })
    return decoder?.finish() ?? null
  }
}

/** A gateway's context with one bucket. The test says what `authorize` refuses. */
export class TestGateway {
  readonly store = new MemoryStore()
  readonly bucket: Bucket
  readonly context: GatewayContext
  /** What `authorize` was asked, as `action bucket/key principal`. */
  readonly asked: string[] = []
  /** What `authorize` refuses: an action, or an action and a key. */
  readonly refused = new Set<string>()
  /** Principal of a form; null: anonymous. */
  formPrincipal: string | null = 'alice'

  private constructor(store: MemoryStore, bucket: Bucket) {
    this.store = store
    this.bucket = bucket
    this.context = {
      store,
      region: 'us-east-1',
      putBytesMax: 1 << 20,
      ignoresAcls: false,
      nowMs: () => store.nowMs,
      pace: new Pace(setImmediate),
      documents: new DocumentGate(),
      deleted: () => {},
      authorize: async (request, action, bucketName, key) => {
        this.asked.push(`${action} ${bucketName}/${key ?? ''} ${request.caller.principal?.id ?? 'nobody'}`)
        const found = store.bucket(bucketName)
        if (found === null) throw refuse('NoSuchBucket')
        if (this.refused.has(action) || this.refused.has(`${action} ${key}`)) throw refuse('AccessDenied')
        return found
      },
      authenticateForm: () => callerOf(this.formPrincipal).principal,
    }
  }

  static async open(): Promise<TestGateway> {
    const store = new MemoryStore()
    return new TestGateway(store, await store.createBucket('photos', 'alice'))
  }

  async object(handler: ObjectHandler, key: string, parts: RequestParts = {}): Promise<Answer> {
    return handler(requestOf(parts), this.bucket, key, this.context)
  }

  async ofBucket(handler: BucketHandler, parts: RequestParts = {}): Promise<Answer> {
    return handler(requestOf(parts), this.bucket, this.context)
  }

  async form(handler: FormHandler, parts: RequestParts = {}): Promise<Answer> {
    return handler(requestOf(parts), this.bucket.name, this.context)
  }

  /** @returns the ETag with its quotes */
  async put(key: string, body: Uint8Array | string, headers: Texts = {}): Promise<string> {
    return headerOf(await this.object(putObject, key, { body, headers }), 'etag')!
  }

  /** Puts an object in parts with these bodies, numbered from 1. */
  async putParts(key: string, bodies: readonly string[], checksums: readonly string[]): Promise<void> {
    const { store, bucket } = this
    const checksum = { algorithm: 'SHA256', type: 'COMPOSITE', isChosen: true } as const
    const upload = await store.createUpload({ bucket, key, attributes: PLAIN, checksum, initiator: 'alice' })
    for (const [i, text] of bodies.entries()) {
      const writer = store.receive(null, { checksums: [], sha256: false }, { bucket, key, upload: null })
      writer.write(Buffer.from(text))
      const value = { value: checksums[i]!, bytes: text.length }
      await store.putPart(upload, i + 1, await finishBody(writer), value)
    }
    await store.completeUpload({
      upload,
      parts: store.upload(bucket, key, upload.uploadId)!.parts,
      etag: '0'.repeat(32),
      checksums: [{ algorithm: 'SHA256', type: 'COMPOSITE', value: `whole-${bodies.length}` }],
      precondition: UNCONDITIONAL,
    })
  }

  /** The body of an object, or null. */
  async bytesOf(key: string): Promise<string | null> {
    const object = await this.store.object(this.bucket, key)
    if (object === null) return null
    const answer: Answer = {
      status: 200,
      body: { contentType: '', lengthBytes: object.size, source: object.read(0, object.size) },
    }
    return textOf(answer)
  }

  /** Checks that every body and every source was ended. */
  assertClean(): void {
    const { bodies, sources } = this.store.open
    assert.deepEqual({ bodies, sources }, { bodies: 0, sources: 0 })
  }
}

const callerOf = (principal: string | null): Caller => ({
  principal: principal === null ? null : { id: principal, permissions: ALL_PERMISSIONS },
  contentSha256: null,
  chunkSigning: null,
})

export function requestOf({
  query = {},
  headers = {},
  body = '',
  principal = 'alice',
  url,
}: RequestParts): GatewayRequest {
  const all = new Map(Object.entries(headers))
  return {
    operation: 'PutObject', // no handler of an object looks at it
    method: 'PUT',
    requestId: 'objreq-1',
    query: new Map(Object.entries(query)),
    headers: all,
    url: url ?? 'http://store.test/photos',
    isSecure: false,
    caller: { ...callerOf(principal), contentSha256: all.get('x-amz-content-sha256') ?? null },
    answerAsS3() {},
    reserveRoom: () => Promise.resolve(),
    body: body instanceof FakeBody ? body : new FakeBody(Buffer.from(body)),
  }
}

type AnswerHeaders = Pick<Answer, 'headers' | 'objectHeaders'>

/** Header lines in the order in which they go out. */
export const headersOf = ({ objectHeaders, headers = [] }: AnswerHeaders): readonly HeaderLine[] => [
  ...(objectHeaders?.lines ?? []),
  ...headers,
]

/** Value of the header with this name, given in lower case; undefined: it is absent. Fails when it is there twice. */
export function headerOf(answer: AnswerHeaders, name: string): string | undefined {
  const values = headersOf(answer)
    .filter(([each]) => each.toLowerCase() === name)
    .map(([, value]) => value)
  assert(values.length <= 1, `${name} stands there ${values.length} times`)
  return values[0]
}

function textOfPieces(pieces: Iterator<string, void>): string {
  let text = ''
  for (let next = pieces.next(); next.done !== true; next = pieces.next()) text += next.value
  return text
}

/** Reads the body of an answer to its end, and checks that it is as long as it says. */
export async function textOf({ body }: Answer): Promise<string> {
  if (!body) return ''
  if ('bytes' in body) return Buffer.from(body.bytes).toString()
  if ('pieces' in body) return textOfPieces(body.pieces)
  const pieces: Uint8Array[] = []
  for (let piece = await body.source.next(); piece !== null; piece = await body.source.next()) pieces.push(piece)
  const bytes = Buffer.concat(pieces)
  assert.equal(bytes.length, body.lengthBytes)
  return bytes.toString()
}

export async function assertRefusal(
  answer: Promise<unknown>,
  code: RefusalCode,
  about: { readonly fields?: RefusalFields; readonly message?: RegExp; readonly headers?: Texts } = {},
): Promise<void> {
  await assert.rejects(answer, (error) => {
    assert(error instanceof S3Error, String(error))
    assert.equal(error.code, code, error.message)
    if (about.fields !== undefined) assert.deepEqual(error.fields, about.fields)
    if (about.message !== undefined) assert.match(error.message, about.message)
    if (about.headers !== undefined) assert.deepEqual(Object.fromEntries(error.headers), about.headers)
    return true
  })
}
