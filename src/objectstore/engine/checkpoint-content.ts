/**
 * The state as a checkpoint holds it. Integers are little-endian.
 *
 *   offset  bytes  what
 *        0      4  jsonBytes  u32
 *        4      4  unused     0
 *        8      …  json       buckets, uploads and what is small, UTF-8
 *        …      …  index      as ../index/checkpoint.ts has it
 *
 * K1  it is a copy: the state changes while it is written. The part of the index is made bit by bit, see CheckpointWriter
 */
import type { Steps } from '../../steps.ts'
import { CheckpointReader } from '../index/checkpoint.ts'
import type { CheckpointWriter } from '../index/checkpoint.ts'
import { KeyIndex } from '../index/key-index.ts'
import type { Bucket, ObjectAttributes } from '../operations.ts'
import { completeAttributes } from './frames.ts'
import type { Extent, WithWrittenAttributes } from './frames.ts'
import { StoreState } from './state.ts'
import type { CleanedLog, CompletedState, PartState, UploadState } from './state.ts'

type Part = Omit<PartState, 'extents'> & { readonly extents: readonly number[] }

interface Content {
  readonly next_bucket_number: number
  readonly commit_sequence: number
  readonly live_bytes: number
  /** Documents in Base64. */
  readonly buckets: readonly (Omit<Bucket, 'cors' | 'policy'> & {
    readonly cors: string | null
    readonly policy: string | null
    /** Bytes of its objects. Checkpoints of older versions lack it. */
    readonly bytes?: number
  })[]
  /** Keys in Base64; of each extent its position, then its bytes. */
  readonly uploads: readonly (Omit<UploadState, 'key' | 'parts' | 'attributes'> & {
    readonly key: string
    readonly attributes: WithWrittenAttributes<ObjectAttributes>
    readonly parts: readonly Part[]
  })[]
  /** Absent: the log was never in a cluster, or not cleaned there. */
  readonly cleaned?: CleanedLog
  /** Checkpoints of older versions say nothing of their encryption. */
  readonly completed: readonly (Omit<CompletedState, 'encryption'> & Partial<Pick<CompletedState, 'encryption'>>)[]
}

const HEAD_BYTES = 8

const base64 = (bytes: Buffer | null): string | null => bytes?.toString('base64') ?? null
const bytesOf = (text: string | null): Buffer | null => (text === null ? null : Buffer.from(text, 'base64'))

export interface CheckpointCopy {
  readonly head: Uint8Array<ArrayBuffer>
  readonly index: CheckpointWriter
}

/** K1 */
export function copyState(state: StoreState): CheckpointCopy {
  const content: Content = {
    next_bucket_number: state.nextBucketNumber,
    commit_sequence: state.commitSequence,
    live_bytes: state.liveBytes,
    buckets: Array.from(state.buckets, (bucket) => ({
      ...bucket,
      cors: base64(bucket.cors),
      policy: base64(bucket.policy),
      bytes: state.bytesOf(bucket),
    })),
    uploads: Array.from(state.uploads.values(), (upload) => ({
      ...upload,
      key: upload.key.toString('base64'),
      parts: Array.from(upload.parts.values(), (part) => ({
        ...part,
        extents: part.extents.flatMap(({ position, bytes }) => [position, bytes]),
      })),
    })),
    completed: [...state.completed.values()],
    ...(state.cleaned.before > 0 && { cleaned: state.cleaned }),
  }
  const json = Buffer.from(JSON.stringify(content))
  const head = Buffer.from(new ArrayBuffer(HEAD_BYTES + json.byteLength))
  head.writeUInt32LE(json.byteLength, 0)
  json.copy(head, HEAD_BYTES)
  return { head, index: state.index.checkpoint() }
}

/** @param pieces each good until the next is asked for. @throws StoreError `corrupt` when the index is of another version */
export function* decodeState(pieces: Iterable<Buffer>, totalBytes = 0): Steps<StoreState> {
  let json = ''
  let done = 0
  const reader = new CheckpointReader()
  for (const part of behindHead(pieces, (read) => (json = read))) {
    reader.push(part)
    done += part.byteLength
    yield { phase: 'reading the checkpoint', done, total: totalBytes, unit: 'bytes' }
  }
  const index = new KeyIndex(reader.finish())
  const content = JSON.parse(json) as Content // as `copyState` wrote it: its checksum holds
  const state = new StoreState(index)
  for (const { bytes, ...written } of content.buckets) {
    const bucket = { ...written, cors: bytesOf(written.cors), policy: bytesOf(written.policy) }
    state.addBucket(bucket)
    state.addBytes(bucket.number, bytes ?? index.bytesIn(bucket.number))
  }
  for (const upload of content.uploads) {
    const parts = upload.parts.map((part) => [part.partNumber, partOf(part)] as const)
    state.uploads.set(upload.uploadId, {
      ...upload,
      key: Buffer.from(upload.key, 'base64'),
      attributes: completeAttributes(upload.attributes),
      parts: new Map(parts),
    })
  }
  for (const completed of content.completed) {
    state.completed.set(completed.uploadId, { encryption: null, ...completed })
  }
  state.nextBucketNumber = content.next_bucket_number
  state.commitSequence = content.commit_sequence
  state.liveBytes = content.live_bytes
  state.cleaned = content.cleaned ?? state.cleaned
  return state
}

/** What comes behind the head, which is given to `onJson`. */
function* behindHead(pieces: Iterable<Buffer>, onJson: (json: string) => void): Generator<Buffer, void, undefined> {
  const head: Buffer[] = []
  let headBytes = HEAD_BYTES
  let read = 0
  for (const piece of pieces) {
    if (read < headBytes) {
      head.push(Buffer.from(piece))
      if (read === 0) headBytes += piece.readUInt32LE(0)
    }
    const begin = headBytes - read
    read += piece.byteLength
    if (begin > piece.byteLength) continue
    if (begin > 0) onJson(Buffer.concat(head).toString('utf8', HEAD_BYTES, headBytes))
    yield piece.subarray(Math.max(0, begin))
  }
}

/** Older versions said more of it. */
const partOf = ({ partNumber, size, etag, lastModifiedMs, checksum, extents }: Part): PartState => ({
  partNumber,
  size,
  etag,
  lastModifiedMs,
  checksum,
  extents: pairsOf(extents),
})

const pairsOf = (numbers: readonly number[]): Extent[] =>
  Array.from({ length: numbers.length / 2 }, (_, i) => ({ position: numbers[2 * i]!, bytes: numbers[2 * i + 1]! }))
