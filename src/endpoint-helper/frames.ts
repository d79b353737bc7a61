/**
 * Frames of the endpoint helper's log. The payload of a record:
 *
 *   offset  bytes  field
 *        0      1  version  PAYLOAD_VERSION
 *        1      1  idBytes  1 ..= 128
 *        2      …  id       ASCII
 *        …      …  object   JSON text in UTF-8
 *
 * A compaction stands in the log as COPY_BEGIN, copies of all live records (FLAG_COPY), COPY_END; the payload of its two marks is
 * the version byte alone.
 */
import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import { copyBytes } from '../../native-free-codecs/copy-bytes.ts'
import { StoreError } from '../errors.ts'
import type { BeginResult, LogWriter } from '../log/log-writer.ts'

export const RECORD = 1
export const COPY_BEGIN = 2
export const COPY_END = 3

/** Flag of a record that a compaction wrote again. */
export const FLAG_COPY = 1

const PAYLOAD_VERSION = 1
const ID_AT = 2
const ID_BYTES_MAX = 128

export interface StoredObject {
  readonly activationId: string
  /** JSON text. */
  readonly object: string
}

export interface HelperFrame {
  readonly type: number
  readonly flags: number
  readonly payload: Buffer
}

export const recordFrame = (stored: StoredObject, flags = 0): HelperFrame => ({
  type: RECORD,
  flags,
  payload: encodeRecord(stored),
})

export const markFrame = (type: typeof COPY_BEGIN | typeof COPY_END): HelperFrame => ({
  type,
  flags: 0,
  payload: Buffer.from([PAYLOAD_VERSION]),
})

/** @returns not 'ok': nothing was written */
export function writeFrame(
  writer: LogWriter,
  { type, flags, payload }: HelperFrame,
  purpose: 'admit' | 'finish',
): BeginResult {
  const began = writer.tryBegin(type, payload.byteLength, -1, 0, 'sync', purpose, flags)
  if (began !== 'ok') return began
  copyBytes(payload, writer.bytes, writer.inlineOffset)
  writer.publish(crc32(payload))
  return 'ok'
}

export const recordPayloadBytes = ({ activationId, object }: StoredObject): number =>
  ID_AT + activationId.length + Buffer.byteLength(object)

function encodeRecord(stored: StoredObject): Buffer {
  const { activationId, object } = stored
  assert(activationId.length > 0 && activationId.length <= ID_BYTES_MAX)
  const payload = Buffer.allocUnsafe(recordPayloadBytes(stored))
  payload[0] = PAYLOAD_VERSION
  payload[1] = activationId.length
  payload.write(activationId, ID_AT, 'latin1')
  payload.write(object, ID_AT + activationId.length, 'utf8')
  return payload
}

/** @param payload of a frame whose checksum held */
export function decodeRecord(payload: Buffer): StoredObject {
  const objectAt = ID_AT + payload[1]!
  return { activationId: payload.toString('latin1', ID_AT, objectAt), object: payload.toString('utf8', objectAt) }
}

/** @throws StoreError for what only a newer version of this program writes */
export function checkFrame(type: number, payload: Buffer, directory: string): void {
  if (type >= RECORD && type <= COPY_END && payload[0] === PAYLOAD_VERSION) return
  throw new StoreError(
    'corrupt',
    'endpoint_format_newer',
    `${directory} holds frames of type ${type}, version ${payload[0] ?? 'none'}, of a newer version: upgrade`,
  )
}
