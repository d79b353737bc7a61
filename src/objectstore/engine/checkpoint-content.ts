/**
 * The state as a checkpoint holds it. Integers are little-endian.
 *
 *   offset  bytes  what
 *        0      4  jsonBytes  u32
 *        4      4  version    u32
 *        8      …  json       what is small, UTF-8
 *        …      …  records    buckets, uploads, completions: each its length u32, then JSON. A length of 0 ends them
 *        …      …  index      as ../index/checkpoint.ts has it
 *
 * In version 0 there are no records: all of them are in the json. Programs that know only that version take the records for an index, which
 * they refuse.
 *
 * K1  a checkpoint is a copy, as the state changes while it is written. What changes in place is copied at once: which buckets, uploads, parts and
 *     completions there are, and what buckets hold. The parts of the file are made one by one, those of the index as CheckpointWriter says
 * K2  a part of the file is made in some milliseconds, whatever the state is: only the extents of an uploaded part, or the documents of a bucket, can
 *     make a record long
 */
import { StoreError } from '../../errors.ts'
import type { StateCopy } from '../../engine/checkpoints.ts'
import type { Steps } from '../../steps.ts'
import { CheckpointReader } from '../index/checkpoint.ts'
import { KeyIndex } from '../index/key-index.ts'
import type { Bucket, ObjectAttributes } from '../operations.ts'
import { ExtentListBuilder } from './extent-list.ts'
import type { ExtentList } from './extent-list.ts'
import { completeAttributes } from './frames.ts'
import type { WithWrittenAttributes } from './frames.ts'
import { StoreState } from './state.ts'
import type { CleanedLog, CompletedState, PartState, UploadState } from './state.ts'

/** Documents in Base64. */
type WrittenBucket = Omit<Bucket, 'cors' | 'policy'> & {
  readonly cors: string | null
  readonly policy: string | null
  /** Bytes of its objects. Checkpoints of older versions lack it. */
  readonly bytes?: number
}

/** `extents` has the position and the bytes of each extent, in turn. */
type WrittenPart = Omit<PartState, 'extents'> & { readonly extents: number[] }

/** The key in Base64. */
type WrittenUpload = Omit<UploadState, 'key' | 'parts' | 'attributes'> & {
  readonly key: string
  readonly attributes: WithWrittenAttributes<ObjectAttributes>
  readonly parts: WrittenPart[]
}

/** Checkpoints of older versions say nothing of their encryption. */
type WrittenCompletion = Omit<CompletedState, 'encryption'> & Partial<Pick<CompletedState, 'encryption'>>

interface Content {
  readonly next_bucket_number: number
  readonly commit_sequence: number
  readonly live_bytes: number
  /** Absent: the log was never in a cluster, or not cleaned there. */
  readonly cleaned?: CleanedLog
  /** These are members in version 0 only. */
  readonly buckets?: WrittenBucket[]
  readonly uploads?: WrittenUpload[]
  readonly completed?: WrittenCompletion[]
}

/** The parts of an upload follow it, further extents of a part follow the part. */
type Entry =
  | { readonly bucket: WrittenBucket }
  | { readonly upload: WrittenUpload }
  | { readonly part: WrittenPart }
  | { readonly extents: readonly number[] }
  | { readonly completed: WrittenCompletion }

const HEAD_BYTES = 8
const VERSION = 1
const LENGTH_BYTES = 4
/** A part of the file ends with the record that makes it so long. */
const PART_BYTES = 64 * 1024
/** K2 */
const EXTENTS_PER_RECORD = 2000
/** Entries that one step of a start puts into the state. */
const ENTRIES_PER_STEP = 5000

const base64 = (bytes: Buffer | null): string | null => bytes?.toString('base64') ?? null
const bytesOf = (text: string | null): Buffer | null => (text === null ? null : Buffer.from(text, 'base64'))

/** K1 */
export function copyState(state: StoreState): StateCopy {
  const { nextBucketNumber, commitSequence, liveBytes, cleaned } = state
  const content: Content = {
    next_bucket_number: nextBucketNumber,
    commit_sequence: commitSequence,
    live_bytes: liveBytes,
    ...(cleaned.before > 0 && { cleaned }),
  }
  const buckets = Array.from(state.buckets, (bucket) => ({ bucket, bytes: state.bytesOf(bucket) }))
  const uploads = [...state.uploads.values()]
  const parts = uploads.map(({ parts }) => (parts.size === 0 ? NO_PARTS : [...parts.values()]))
  const completed = [...state.completed.values()]
  const head = partsOf(content, entriesOf(buckets, uploads, parts, completed))
  const index = state.index.checkpoint()
  return {
    next() {
      const part = head.next()
      return part.done ? index.next() : part.value
    },
    abandon() {
      head.return()
      index.abandon()
    },
  }
}

const NO_PARTS: readonly PartState[] = []

/** The parts of the file before the index. */
function* partsOf(content: Content, entries: Iterable<Entry>): Generator<Uint8Array<ArrayBuffer>, void, undefined> {
  const json = Buffer.from(JSON.stringify(content))
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32LE(json.byteLength, 0)
  head.writeUInt32LE(VERSION, 4)
  let pieces: Buffer[] = [head, json]
  let bytes = 0
  for (const entry of entries) {
    const record = Buffer.from(JSON.stringify(entry))
    pieces.push(u32(record.byteLength), record)
    bytes += LENGTH_BYTES + record.byteLength
    if (bytes < PART_BYTES) continue
    yield joined(pieces)
    pieces = []
    bytes = 0
  }
  yield joined([...pieces, u32(0)])
}

function* entriesOf(
  buckets: readonly { readonly bucket: Bucket; readonly bytes: number }[],
  uploads: readonly UploadState[],
  partsOfUploads: readonly (readonly PartState[])[],
  completed: readonly CompletedState[],
): Generator<Entry, void, undefined> {
  for (const { bucket, bytes } of buckets) {
    yield { bucket: { ...bucket, cors: base64(bucket.cors), policy: base64(bucket.policy), bytes } }
  }
  for (const [i, upload] of uploads.entries()) {
    yield { upload: { ...upload, key: upload.key.toString('base64'), parts: [] } }
    for (const part of partsOfUploads[i]!) {
      yield { part: { ...part, extents: numbersOf(part.extents.between(0, EXTENTS_PER_RECORD)) } }
      for (let from = EXTENTS_PER_RECORD; from < part.extents.length; from += EXTENTS_PER_RECORD)
        yield { extents: numbersOf(part.extents.between(from, from + EXTENTS_PER_RECORD)) }
    }
  }
  for (const each of completed) yield { completed: each }
}

/** In memory of its own, which is handed to another thread. */
function joined(pieces: readonly Buffer[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.byteLength
  }
  return bytes
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(LENGTH_BYTES)
  bytes.writeUInt32LE(value)
  return bytes
}

/** @param pieces each valid until the next is asked for. @throws StoreError `corrupt` when a part of it is of another version */
export function* decodeState(pieces: Iterable<Buffer>, totalBytes = 0): Steps<StoreState> {
  const phase = 'reading the checkpoint'
  const head = new HeadReader()
  const reader = new CheckpointReader()
  let done = 0
  for (const piece of pieces) {
    const behind = head.push(piece)
    if (behind !== null) reader.push(behind)
    done += piece.byteLength
    yield { phase, done, total: totalBytes, unit: 'bytes' }
  }
  const index = new KeyIndex(reader.finish())
  const { content, buckets, uploads, completed } = head.finish()
  const state = new StoreState(index)
  let entries = 0
  const isLong = (): boolean => (entries += 1) % ENTRIES_PER_STEP === 0
  for (const { bytes, ...written } of buckets) {
    const bucket = { ...written, cors: bytesOf(written.cors), policy: bytesOf(written.policy) }
    state.addBucket(bucket)
    state.addBytes(bucket.number, bytes ?? index.bytesIn(bucket.number))
  }
  for (const upload of uploads) {
    const parts = upload.parts.map((part) => [part.partNumber, partOf(part)] as const)
    state.uploads.set(upload.uploadId, {
      ...upload,
      key: Buffer.from(upload.key, 'base64'),
      attributes: completeAttributes(upload.attributes),
      parts: new Map(parts),
    })
    if (isLong()) yield { phase, done, total: totalBytes, unit: 'bytes' }
  }
  for (const each of completed) {
    state.completed.set(each.uploadId, { encryption: null, ...each })
    if (isLong()) yield { phase, done, total: totalBytes, unit: 'bytes' }
  }
  state.nextBucketNumber = content.next_bucket_number
  state.commitSequence = content.commit_sequence
  state.liveBytes = content.live_bytes
  state.cleaned = content.cleaned ?? state.cleaned
  return state
}

/** Reads what comes before the index, from pieces that are cut anywhere. The checksum of the file holds, so this is what `copyState` wrote. */
class HeadReader {
  #content: Content | null = null
  readonly #buckets: WrittenBucket[] = []
  readonly #uploads: WrittenUpload[] = []
  readonly #completed: WrittenCompletion[] = []
  #isWhole = false
  /** Pieces of what has begun and is not complete yet. */
  #begun: Buffer[] = []
  #begunBytes = 0
  /** With fewer bytes nothing more is complete. */
  #neededBytes = HEAD_BYTES

  /** @returns the bytes of the piece that are behind the head; null: there are none */
  push(piece: Buffer): Buffer | null {
    if (this.#isWhole) return piece
    this.#begunBytes += piece.byteLength
    if (this.#begunBytes < this.#neededBytes) {
      this.#begun.push(Buffer.from(piece))
      return null
    }
    const bytes = this.#begun.length === 0 ? piece : Buffer.concat([...this.#begun, piece])
    const at = this.#read(bytes)
    this.#begun = this.#isWhole ? [] : [Buffer.from(bytes.subarray(at))]
    this.#begunBytes = bytes.byteLength - at
    return this.#isWhole ? bytes.subarray(at) : null
  }

  /** @throws StoreError `corrupt` when parts are missing */
  finish() {
    if (this.#content === null || !this.#isWhole) throw unreadable('ends before its index')
    const { buckets = this.#buckets, uploads = this.#uploads, completed = this.#completed } = this.#content
    return { content: this.#content, buckets, uploads, completed }
  }

  /** Reads all that is complete. @returns how many bytes that were */
  #read(bytes: Buffer): number {
    let at = this.#content === null ? this.#readContent(bytes) : 0
    while (this.#content !== null && !this.#isWhole) {
      this.#neededBytes = LENGTH_BYTES
      if (bytes.byteLength - at < LENGTH_BYTES) break
      const recordBytes = bytes.readUInt32LE(at)
      this.#neededBytes += recordBytes
      if (bytes.byteLength - at < this.#neededBytes) break
      if (recordBytes === 0) this.#isWhole = true
      else this.#add(JSON.parse(bytes.toString('utf8', at + LENGTH_BYTES, at + this.#neededBytes)) as Entry)
      at += this.#neededBytes
    }
    return at
  }

  #readContent(bytes: Buffer): number {
    const version = bytes.readUInt32LE(4)
    if (version > VERSION) throw unreadable(`is of version ${version}: use the version of the program that wrote it`)
    this.#neededBytes = HEAD_BYTES + bytes.readUInt32LE(0)
    if (bytes.byteLength < this.#neededBytes) return 0
    this.#content = JSON.parse(bytes.toString('utf8', HEAD_BYTES, this.#neededBytes)) as Content
    this.#isWhole = version === 0
    return this.#neededBytes
  }

  #add(entry: Entry): void {
    if ('bucket' in entry) this.#buckets.push(entry.bucket)
    else if ('upload' in entry) this.#uploads.push(entry.upload)
    else if ('part' in entry) this.#uploads.at(-1)!.parts.push(entry.part)
    else if ('extents' in entry)
      this.#uploads
        .at(-1)!
        .parts.at(-1)!
        .extents.push(...entry.extents)
    else this.#completed.push(entry.completed)
  }
}

const unreadable = (what: string): StoreError =>
  new StoreError('corrupt', 'objectstore_checkpoint_unreadable', `a checkpoint of the object store ${what}`)

/** Parts that older versions wrote have more fields. */
const partOf = ({ partNumber, size, etag, lastModifiedMs, checksum, extents }: WrittenPart): PartState => ({
  partNumber,
  size,
  etag,
  lastModifiedMs,
  checksum,
  extents: extentsOf(extents),
})

function numbersOf(extents: ExtentList): number[] {
  const numbers: number[] = []
  for (const { position, bytes } of extents) numbers.push(position, bytes)
  return numbers
}

function extentsOf(numbers: readonly number[]): ExtentList {
  const extents = new ExtentListBuilder(numbers.length / 2)
  for (let i = 0; i < numbers.length; i += 2) extents.add({ position: numbers[i]!, bytes: numbers[i + 1]! })
  return extents.list
}
