/**
 * What queries need of an S3-compatible store, over the AWS SDK: list a prefix, read a range of one version of an object.
 *
 * O1  a range is answered whole, and by the object with the ETag that was asked for, or not at all
 * O2  the SDK repeats requests that the store refuses for a while, and corrects a wrong clock. If an answer breaks off or stalls, the request is repeated
 *     here, up to `ATTEMPTS` attempts
 *
 * The SDK is loaded with the first client: it takes 20 MB, and nothing else needs it.
 */
import type { S3Client, S3ClientConfig } from '@aws-sdk/client-s3'
import { StoreError, messageOf } from '../../errors.ts'

export interface ObjectClientSettings {
  readonly bucket: string
  /** null: the SDK's own choice. */
  readonly region: string | null
  readonly endpoint: string | null
  readonly forcePathStyle: boolean
}

export interface ListedObject {
  readonly key: string
  readonly bytes: number
  readonly etag: string
}

export interface ObjectClient {
  /** All objects whose key begins with the prefix. @throws ObjectReadError; the reason of the signal when it aborts */
  list(prefix: string, signal: AbortSignal): Promise<readonly ListedObject[]>
  /** Bytes [from, to) of the object. @throws ObjectReadError; the reason of the signal when it aborts */
  read(object: ListedObject, from: number, to: number, signal: AbortSignal): Promise<Uint8Array>
  /** Requests to the store so far, bytes that it answered, and reads and listings that failed. */
  readonly counts: { requests: number; bytes: number; failures: number }
  close(): void
}

/** `stale`: the object is not the one that was listed, so the listing is out of date. */
export class ObjectReadError extends Error {
  readonly kind: 'stale' | 'failed'

  constructor(kind: 'stale' | 'failed', message: string, options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
  }
}

/** Connections of the SDK, which also bound the requests at the same time. */
const CONNECTIONS = 32
const CONNECT_MS = 2000
const ATTEMPT_MS = 3000
const ATTEMPTS = 3

/** @throws StoreError when the settings, the environment included, cannot work */
export async function openObjectClient(settings: ObjectClientSettings): Promise<ObjectClient> {
  const { GetObjectCommand, ListObjectsV2Command, S3Client } = await import('@aws-sdk/client-s3')
  const { bucket, region, endpoint, forcePathStyle } = settings
  const config: S3ClientConfig = {
    forcePathStyle,
    ...(region !== null && { region }),
    ...(endpoint !== null && { endpoint }),
    maxAttempts: ATTEMPTS,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED', // every block and frame has its own checksum
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      requestTimeout: ATTEMPT_MS,
      httpAgent: { keepAlive: true, maxSockets: CONNECTIONS },
      httpsAgent: { keepAlive: true, maxSockets: CONNECTIONS },
    },
  }
  const client = new S3Client(config)
  await checkRegion(client)
  const counts = { requests: 0, bytes: 0, failures: 0 }
  client.middlewareStack.add(
    (next) => (args) => {
      counts.requests += 1
      return next(args)
    },
    { step: 'deserialize', name: 'countRequests' },
  )
  const attempt = async <Result>(
    signal: AbortSignal,
    ask: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> => {
    for (let made = 1; ; made++) {
      const limited = AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_MS)])
      try {
        return await ask(limited)
      } catch (error) {
        if (signal.aborted) throw signal.reason
        if (made < ATTEMPTS && mayPass(error, limited)) continue
        counts.failures += 1
        throw readErrorOf(error, limited)
      }
    }
  }
  return {
    counts,
    async list(prefix, signal) {
      const objects: ListedObject[] = []
      for (let from: string | undefined; ;) {
        const input = { Bucket: bucket, Prefix: prefix, ...(from !== undefined && { ContinuationToken: from }) }
        const page = await attempt(signal, (abortSignal) =>
          client.send(new ListObjectsV2Command(input), { abortSignal }),
        )
        for (const { Key, Size, ETag } of page.Contents ?? []) {
          if (Key !== undefined && Size !== undefined && ETag !== undefined) {
            objects.push({ key: Key, bytes: Size, etag: ETag })
          }
        }
        from = page.IsTruncated === true ? page.NextContinuationToken : undefined
        if (from === undefined) return objects
      }
    },
    async read({ key, etag }, from, to, signal) {
      const input = { Bucket: bucket, Key: key, IfMatch: etag, Range: `bytes=${from}-${to - 1}` }
      const bytes = await attempt(signal, async (abortSignal) => {
        const { Body, ContentRange } = await client.send(new GetObjectCommand(input), { abortSignal })
        const bytes = await Body?.transformToByteArray()
        const isWhole = bytes?.byteLength === to - from && ContentRange?.startsWith(`bytes ${from}-${to - 1}/`) === true
        if (!isWhole) throw new TruncatedError(`it answered ${bytes?.byteLength ?? 0} of ${to - from} bytes`)
        return bytes
      })
      counts.bytes += bytes.byteLength
      return bytes
    },
    close: () => client.destroy(),
  }
}

/** An answer that is not the range that was asked for. */
class TruncatedError extends Error {}

/** The region is the one setting without a default. */
async function checkRegion(client: S3Client): Promise<void> {
  try {
    await client.config.region()
  } catch (error) {
    const problem =
      'LOGSTORE_QUERY_S3_REGION must be set: neither the environment nor the AWS configuration names a region'
    throw new StoreError('invalid', 'query_store_unavailable', problem, { cause: error })
  }
}

/** Whether a request is repeated that the SDK does not repeat itself: its answer ended early, or did not come in time. */
function mayPass(error: unknown, limited: AbortSignal): boolean {
  if (limited.aborted || error instanceof TruncatedError) return true
  return BROKEN_OFF.has(codeOf(error))
}

const BROKEN_OFF: ReadonlySet<string> = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'])

function readErrorOf(error: unknown, limited: AbortSignal): ObjectReadError {
  if (limited.aborted) return new ObjectReadError('failed', `no answer within ${ATTEMPT_MS} ms`, { cause: error })
  const { name } = error as Error // the SDK throws nothing else
  const status = statusOf(error)
  if (status === 404 && name === 'NoSuchKey')
    return new ObjectReadError('stale', 'the object is missing', { cause: error })
  if (status === 412) return new ObjectReadError('stale', 'the object was replaced', { cause: error })
  if (status === 416) return new ObjectReadError('stale', 'the object is shorter than it was', { cause: error })
  if (status !== null) return new ObjectReadError('failed', `${status} ${name}`, { cause: error })
  return new ObjectReadError('failed', codeOf(error) || messageOf(error).split('\n')[0]!, { cause: error })
}

function statusOf(error: unknown): number | null {
  const { $metadata } = error as { readonly $metadata?: { readonly httpStatusCode?: number } } // of the SDK's errors
  return $metadata?.httpStatusCode ?? null
}

const codeOf = (error: unknown): string => {
  const { code } = error as { readonly code?: unknown } // of the system's errors
  return typeof code === 'string' ? code : ''
}
