/**
 * What the object store writes into its log. Integers are little-endian.
 *
 *   CHANGE   JSON: a bucket or an upload begins or ends; in a cluster also up to where the log is cleaned
 *   OBJECT   makes an object visible: what is known of it, and its body, or where the extents of its body are
 *   DELETED  hides a key
 *   EXTENT   a piece of a body, before the frame that makes it part of something
 *   PART     a part of an upload, and where its extents are
 *
 * OBJECT and PART begin with the same head:
 *
 *   offset  bytes  field           meaning
 *        0      4  bucket          u32
 *        4      2  keyBytes        u16
 *        6      2  partNumber      u16; for an object: how many parts it has, 0 when it came in one piece
 *        8      6  size            u48
 *       14      6  lastModifiedMs  u48
 *       20      6  commitSequence  u48; 0 for a part
 *       26      2  flags           u16, see ../index/value.ts; 0 for a part
 *       28     16  etag
 *       44     16  uploadId        the upload of a part, or the one that an object completes; else zeros
 *       60      4  detailsBytes    u32
 *       64      4  extents         u32, how many; 0: the body stands here
 *       68      …  key, details (JSON), the extents as ./extent-list.ts packs them, body
 *
 * An EXTENT names its owner, so that cleaning can find out whether it is still needed:
 *
 *        0      4  bucket          u32
 *        4      2  keyBytes        u16
 *        6      2  partNumber      u16, 0: not of an upload
 *        8     16  uploadId        zeros: not of an upload
 *       24      …  key, then the bytes
 *
 * And DELETED:
 *
 *        0      4  bucket          u32
 *        4      2  keyBytes        u16
 *        6      6  atMs            u48
 *       12      6  commitSequence  u48
 *       18      …  key
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import type { Checksum } from '../bodies/checksums.ts'
import { DEFAULT_STORAGE_CLASS } from '../storage-class.ts'
import type { UploadChecksum } from '../bodies/checksums.ts'
import type { ObjectAttributes, ObjectPart } from '../operations.ts'
import { ExtentList } from './extent-list.ts'
import type { Extent } from './extent-list.ts'

export const FRAME_CHANGE = 1
export const FRAME_OBJECT = 2
export const FRAME_DELETED = 3
export const FRAME_EXTENT = 4
export const FRAME_PART = 5

/** Most bytes of a body in one EXTENT. */
export const EXTENT_BYTES = 256 * 1024

const HEAD_BYTES = 68
const EXTENT_HEAD_BYTES = 24
const DELETED_HEAD_BYTES = 18
const UPLOAD_ID_BYTES = 16
const NO_UPLOAD = Buffer.alloc(UPLOAD_ID_BYTES)

export type Content = { readonly inline: Buffer } | { readonly extents: ExtentList }

/** What is stored of an object beside what the index knows of it. */
export interface ObjectDetails extends ObjectAttributes {
  readonly checksums: readonly Checksum[]
  readonly parts: readonly ObjectPart[] | null
}

/** What a commit says of an object or a part, without its details and its body. */
export interface CommitHead {
  readonly bucket: number
  readonly key: Buffer
  /** For an object, how many parts it has; for a part, its number. */
  readonly partNumber: number
  readonly size: number
  readonly lastModifiedMs: number
  readonly commitSequence: number
  readonly flags: number
  /** 32 hex digits. */
  readonly etag: string
  /** 32 hex digits; null: none. */
  readonly uploadId: string | null
}

export interface CommitFrame extends CommitHead {
  readonly details: Buffer
  readonly content: Content
}

export interface ExtentOwner {
  readonly bucket: number
  readonly key: Buffer
  readonly uploadId: string | null
  readonly partNumber: number
}

export interface DeletedFrame {
  readonly bucket: number
  readonly key: Buffer
  readonly atMs: number
  readonly commitSequence: number
}

export type Change =
  | {
      readonly kind: 'bucket_created'
      readonly number: number
      readonly name: string
      readonly owner: string
      readonly at_ms: number
    }
  | { readonly kind: 'bucket_deleted'; readonly number: number; readonly at_ms: number }
  | {
      readonly kind: 'bucket_document'
      readonly number: number
      readonly document: 'cors' | 'policy'
      /** Base64. */
      readonly content: string | null
      readonly at_ms: number
    }
  | {
      readonly kind: 'upload_created'
      readonly upload_id: string
      readonly bucket: number
      /** Base64. */
      readonly key: string
      readonly initiator: string
      readonly attributes: WithWrittenAttributes<ObjectAttributes>
      readonly checksum: UploadChecksum
      readonly at_ms: number
    }
  | { readonly kind: 'upload_aborted'; readonly upload_id: string; readonly at_ms: number }
  /** All that lived in the segments that end at or below `before` has been moved behind them. In a cluster the leader tells all nodes. */
  | { readonly kind: 'log_cleaned'; readonly before: number; readonly at_ms: number }

export const encodeChange = (change: Change): Buffer => Buffer.from(JSON.stringify(change))
/** Decodes what `encodeChange` wrote, from a frame whose checksum holds. */
export const decodeChange = (payload: Buffer): Change => JSON.parse(payload.toString()) as Change

export const encodeDetails = (details: ObjectDetails | null): Buffer =>
  details === null ? Buffer.alloc(0) : Buffer.from(JSON.stringify(withoutDefaults(details)))

/** The same for a new object, whose attributes are often those of other objects, too. */
export function encodeNewDetails({ attributes, checksums, parts }: NewDetails): Buffer {
  const ofChecksums = checksums.map(
    ({ algorithm, value, type }) => `{"algorithm":"${algorithm}","value":"${value}","type":"${type}"}`, // nothing of it needs escaping
  )
  return Buffer.from(
    `${openAttributes(attributes)},"checksums":[${ofChecksums.join(',')}],"parts":${parts === null ? 'null' : JSON.stringify(parts)}}`,
  )
}

export interface NewDetails extends Pick<ObjectDetails, 'checksums' | 'parts'> {
  readonly attributes: ObjectAttributes
}

/** Texts of frozen attributes: many objects have the same ones. */
const opened = new WeakMap<ObjectAttributes, string>()

/** JSON without its last brace. */
function openAttributes(attributes: ObjectAttributes): string {
  let text = opened.get(attributes)
  if (text !== undefined) return text
  text = JSON.stringify(withoutDefaults(attributes)).slice(0, -1)
  if (Object.isFrozen(attributes)) opened.set(attributes, text)
  return text
}

/** What `completeAttributes` adds need not be in every frame. */
const withoutDefaults = (details: ObjectAttributes): object =>
  details.storageClass === DEFAULT_STORAGE_CLASS ? { ...details, storageClass: undefined } : details

/** Decodes what `encodeDetails` wrote, now or in an older version, from a frame whose checksum holds. */
export const decodeDetails = (details: Buffer): ObjectDetails =>
  completeAttributes(JSON.parse(details.toString()) as WithWrittenAttributes<ObjectDetails>)

/** The default storage class is left out; older versions wrote none. */
export type WithWrittenAttributes<Of extends ObjectAttributes> = Omit<Of, 'storageClass'> &
  Partial<Pick<Of, 'storageClass'>>

export const completeAttributes = <Written extends WithWrittenAttributes<ObjectAttributes>>(
  written: Written,
): Written & Pick<ObjectAttributes, 'storageClass'> => ({
  ...written,
  storageClass: written.storageClass ?? DEFAULT_STORAGE_CLASS,
})

export function commitFrameBytes({ key, details, content }: CommitFrame): number {
  return HEAD_BYTES + key.byteLength + details.byteLength + contentBytesOf(content).byteLength
}

export function encodeCommit(frame: CommitFrame, into: Buffer, begin: number): void {
  const { key, details, content } = frame
  into.writeUInt32LE(frame.bucket, begin)
  into.writeUInt16LE(key.byteLength, begin + 4)
  into.writeUInt16LE(frame.partNumber, begin + 6)
  into.writeUIntLE(frame.size, begin + 8, 6)
  into.writeUIntLE(frame.lastModifiedMs, begin + 14, 6)
  into.writeUIntLE(frame.commitSequence, begin + 20, 6)
  into.writeUInt16LE(frame.flags, begin + 26)
  into.write(frame.etag, begin + 28, 'hex')
  writeUploadId(frame.uploadId, into, begin + 44)
  into.writeUInt32LE(details.byteLength, begin + 60)
  into.writeUInt32LE('inline' in content ? 0 : content.extents.length, begin + 64)
  let at = begin + HEAD_BYTES
  at += key.copy(into, at)
  at = copyBytes(details, into, at)
  copyBytes(contentBytesOf(content), into, at)
}

const contentBytesOf = (content: Content): Buffer => ('inline' in content ? content.inline : content.extents.packed)

/** Views of the payload, not copies. */
export function decodeCommit(payload: Buffer): CommitFrame {
  const keyEnd = HEAD_BYTES + payload.readUInt16LE(4)
  const detailsEnd = keyEnd + payload.readUInt32LE(60)
  const count = payload.readUInt32LE(64)
  const extentsEnd = detailsEnd + ExtentList.packedBytes(count)
  return {
    ...decodeCommitHead(payload),
    details: payload.subarray(keyEnd, detailsEnd),
    content:
      count === 0
        ? { inline: payload.subarray(detailsEnd) }
        : { extents: new ExtentList(payload.subarray(detailsEnd, extentsEnd)) },
  }
}

/** All that the state needs of an object, unless it completes an upload. */
export function decodeCommitHead(payload: Buffer): CommitHead {
  return {
    bucket: payload.readUInt32LE(0),
    key: payload.subarray(HEAD_BYTES, HEAD_BYTES + payload.readUInt16LE(4)),
    partNumber: payload.readUInt16LE(6),
    size: payload.readUIntLE(8, 6),
    lastModifiedMs: payload.readUIntLE(14, 6),
    commitSequence: payload.readUIntLE(20, 6),
    flags: payload.readUInt16LE(26),
    etag: payload.toString('hex', 28, 44),
    uploadId: readUploadId(payload, 44),
  }
}

export function encodeExtentHead({ bucket, key, uploadId, partNumber }: ExtentOwner): Buffer {
  const head = Buffer.alloc(EXTENT_HEAD_BYTES + key.byteLength)
  head.writeUInt32LE(bucket, 0)
  head.writeUInt16LE(key.byteLength, 4)
  head.writeUInt16LE(partNumber, 6)
  writeUploadId(uploadId, head, 8)
  key.copy(head, EXTENT_HEAD_BYTES)
  return head
}

export const decodeExtentOwner = (payload: Buffer): ExtentOwner => ({
  bucket: payload.readUInt32LE(0),
  key: payload.subarray(EXTENT_HEAD_BYTES, EXTENT_HEAD_BYTES + payload.readUInt16LE(4)),
  partNumber: payload.readUInt16LE(6),
  uploadId: readUploadId(payload, 8),
})

/** @param keyBytes length of the owner's key */
export const extentPayloadBytes = ({ bytes }: Extent, keyBytes: number): number => EXTENT_HEAD_BYTES + keyBytes + bytes

/** The bytes of the body in an EXTENT. */
export const extentContent = (payload: Buffer): Buffer => payload.subarray(EXTENT_HEAD_BYTES + payload.readUInt16LE(4))

export const deletedFrameBytes = (key: Uint8Array): number => DELETED_HEAD_BYTES + key.byteLength

export function encodeDeleted({ bucket, key, atMs, commitSequence }: DeletedFrame, into: Buffer, begin: number): void {
  into.writeUInt32LE(bucket, begin)
  into.writeUInt16LE(key.byteLength, begin + 4)
  into.writeUIntLE(atMs, begin + 6, 6)
  into.writeUIntLE(commitSequence, begin + 12, 6)
  key.copy(into, begin + DELETED_HEAD_BYTES)
}

export const decodeDeleted = (payload: Buffer): DeletedFrame => ({
  bucket: payload.readUInt32LE(0),
  key: payload.subarray(DELETED_HEAD_BYTES, DELETED_HEAD_BYTES + payload.readUInt16LE(4)),
  atMs: payload.readUIntLE(6, 6),
  commitSequence: payload.readUIntLE(12, 6),
})

function writeUploadId(uploadId: string | null, into: Buffer, at: number): void {
  if (uploadId === null) NO_UPLOAD.copy(into, at)
  else into.write(uploadId, at, UPLOAD_ID_BYTES, 'hex')
}

function readUploadId(payload: Buffer, at: number): string | null {
  const end = at + UPLOAD_ID_BYTES
  for (let i = at; i < end; i++) if (payload[i] !== 0) return payload.toString('hex', at, end)
  return null
}
