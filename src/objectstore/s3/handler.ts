/**
 * What the gateway gives to the handler of an operation, and what it wants back.
 *
 * The gateway has classified the request, knows the caller, has found the bucket and decided that the caller may do this in it. It renders
 * what the handler throws, names headers as the client names them, and adds those that every answer has.
 */
import type { Answer as EngineAnswer } from '../../engine/decision.ts'
import type { FormFields } from './auth/form-signature.ts'
import type { Principal } from './auth/principal.ts'
import type { Caller } from './auth/request-identity.ts'
import type { Tag } from '../operations.ts'
import type { PolicyAction } from './policy/actions.ts'
import type { Bucket, BodyWriter, ByteSource, ObjectStore, ReceivedBody, ShownHeaders } from '../operations.ts'
import type { AwsChunkedFraming } from './body/aws-chunked.ts'
import type { OperationName } from './operations-table.ts'
import type { DocumentGate } from './document-gate.ts'
import type { Pace } from './pace.ts'

export interface GatewayRequest {
  readonly operation: OperationName
  readonly method: string
  readonly requestId: string
  /** Decoded; the first of a repeated one, '' for one without a value. */
  readonly query: ReadonlyMap<string, string>
  /** By lower-case name; the values of a repeated one joined by commas. `eitherHeader` finds `x-obj-` and `x-amz-` names. */
  readonly headers: ReadonlyMap<string, string>
  /** `http://host/bucket/key` as the client addressed it, percent-encoded: for `Location`. */
  readonly url: string
  readonly caller: Caller
  /** True when the client uses TLS. */
  readonly isSecure: boolean
  /** IP address of the client. Asked for by policies only. */
  readonly sourceAddress?: () => string
  /** Tags in the body, when it was read: for `authorize`, which otherwise takes those in the header. */
  readonly requestTags?: readonly Tag[]
  /** The body shows that the client speaks S3, so that the answer also has S3's names of headers. */
  answerAsS3(): void
  /**
   * Waits until there is room in memory for a long body or answer of about so many bytes (http/held-memory.ts M1). To be called once, before the body is
   * collected, or the content of the answer is read.
   *
   * @throws S3Error RequestTimeout when the client is gone
   */
  readonly reserveRoom: (bytes: number) => Promise<void>
  readonly body: RequestBody
}

/** The body of a request, to be taken once. A body that is not taken is read and dropped. */
export interface RequestBody {
  /** On the wire; null: not declared. */
  readonly contentLength: number | null
  /**
   * Collects a small body as a whole, without its framing.
   *
   * @param limitBytes of the payload
   * @throws S3Error EntityTooLarge, RequestTimeout, IncompleteBody, and refusals of wrong framing
   */
  collect(limitBytes: number, framing: AwsChunkedFraming | null): Promise<CollectedBody>
  /**
   * Streams the payload into a writer, at the pace of the slower one, and finishes the writer. When this is refused, the writer is abandoned.
   *
   * @param answer refused with the errors of `collect`, and those of the writer
   */
  pipe(limitBytes: number, framing: AwsChunkedFraming | null, writer: BodyWriter, answer: EngineAnswer<PipedBody>): void
  /** The raw bytes, for a parser that decides on its own: forms. Returns when the last chunk was taken. */
  read(sink: BodyChunks): Promise<void>
}

export interface CollectedBody {
  readonly bytes: Buffer
  /** Value of the announced trailer. */
  readonly trailer: string | null
}

export interface PipedBody {
  readonly received: ReceivedBody
  readonly trailer: string | null
}

export interface BodyChunks {
  /** @param bytes valid during the call. Returns what to wait for before the next chunk, null: nothing */
  chunk(bytes: Uint8Array): Promise<void> | null
}

export interface GatewayContext {
  readonly store: ObjectStore
  readonly region: string
  /** Cap of a single PUT and of a part. */
  readonly putBytesMax: number
  /** True with the extension `ignore-acl-headers`: the headers of requests come without ACLs, but fields of forms still have them. */
  readonly ignoresAcls: boolean
  /** Milliseconds since the Unix epoch. */
  nowMs(): number
  /** Paces work whose length the client decides. */
  readonly pace: Pace
  /** Bounds the memory of documents that are long. */
  readonly documents: DocumentGate
  /** Tells the audit log of the keys that an operation deleted. */
  deleted(
    request: Pick<GatewayRequest, 'operation' | 'requestId' | 'caller'>,
    bucket: string,
    keys: readonly string[],
  ): void
  /**
   * Demands that the caller may do something else than what it asked for, such as read the source of a copy.
   *
   * @throws S3Error NoSuchBucket, AccessDenied
   */
  authorize(
    request: GatewayRequest,
    action: PolicyAction,
    bucketName: string,
    key: string | null,
  ): Bucket | Promise<Bucket>
  /**
   * The principal of a browser's form, by its fields. The gateway refuses a PostObject only if the caller may post nothing at all. Whether it may post
   * this, the handler asks `authorize`, with the principal from here as the request's caller.
   *
   * @returns null: anonymous
   * @throws S3Error when the signature is wrong
   */
  authenticateForm(field: FormFields, caller: Caller): Principal | null
}

export type HeaderLine = readonly [name: string, value: string]

export interface Answer {
  readonly status: number
  /** Beside those of every answer. Names that S3 has too begin with `x-obj-` here: the gateway adds the `x-amz-` ones. */
  readonly headers?: readonly HeaderLine[]
  /** Headers of an object, whose text is kept for its next answers. */
  readonly objectHeaders?: ShownHeaders
  readonly body?: AnswerBody | null
}

export type AnswerBody =
  | { readonly contentType: string; readonly bytes: Uint8Array | string }
  /** Made while it is sent, where it is long. */
  | { readonly contentType: string; readonly pieces: Iterator<string, void> }
  | { readonly contentType: string; readonly lengthBytes: number; readonly source: ByteSource }

/** At once, where nothing has to be waited for. */
export type MaybePromise<Value> = Value | Promise<Value>

/** Serves an operation on the service. */
export type ServiceHandler = (request: GatewayRequest, context: GatewayContext) => MaybePromise<Answer>
/** Serves an operation on a bucket that may be missing. */
export type BucketNameHandler = (
  request: GatewayRequest,
  bucketName: string,
  context: GatewayContext,
) => MaybePromise<Answer>
/** Serves a form, whose fields name its sender: nothing is authorized yet, and the bucket may be missing. */
export type FormHandler = BucketNameHandler
export type BucketHandler = (request: GatewayRequest, bucket: Bucket, context: GatewayContext) => MaybePromise<Answer>
export type ObjectHandler = (
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
) => MaybePromise<Answer>
