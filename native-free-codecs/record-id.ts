/**
 * Deterministic record ids: the same record sent again has the same id, and two different records never share one.
 *
 *   id = the first 16 bytes of SHA-256 over
 *
 *   offset  bytes  field        meaning
 *        0     32  prefix       digest of everything the records of a group have in common, see groupPrefix
 *       32      4  ordinal      u32 big-endian: number of identical records before it in its batch
 *       36      1  kind         0: the record has a time; 1: it has none and the batch digest follows
 *       37      …  batchDigest  32 bytes, kind 1 only: SHA-256 of the whole batch
 *        …      …  record       the bytes of the record, to the end
 *
 * I1  only the last field varies in length and the kind says where it begins, so no two inputs give the same message.
 * I2  a timed record keeps its id in whatever batch it comes; a timeless one is only ever equal to itself in a retry of the
 *     same batch, so that deduplication cannot eat events that merely look alike.
 * I3  identical records of one batch are different records: the ordinal tells them apart.
 */
import { createHash, hash } from 'node:crypto'

/** Part of every id: a change of what goes in is a new version, and then old ids stop matching retries. */
const RECORD_ID_VERSION = 1

const RECORD_ID_TEXT_PREFIX = 'logstore_'
const PREFIX_BYTES = 32
const HEAD_BYTES = PREFIX_BYTES + 4 + 1
const DIGEST_BYTES = 32

/** A message up to this size is put together in one buffer and hashed in one call, which takes half the time of an incremental hash. */
const SCRATCH_BYTES = 64 * 1024
const scratch = Buffer.alloc(SCRATCH_BYTES)
/** scratch[0 .. n) for each n in use: most records are short, and a new view for each costs a tenth of its id. */
const heads: (Buffer | undefined)[] = []
const HEADS_BYTES_MAX = 4096
let prefixInScratch: Buffer | null = null // records come group by group

/**
 * What the records of one group (one resource, one scope) have in common.
 *
 *   version u8 · signal u8 · tenant · dataset · resource · scope     each of the four: length u32 big-endian, then its bytes
 *
 * @param signal    a number below 256 that stands for log or trace
 * @param resource  its bytes as they came; empty when absent
 * @param scope     likewise
 * @returns a digest of 32 bytes
 */
export function groupPrefix(
  tenant: string,
  dataset: string,
  signal: number,
  resource: Uint8Array,
  scope: Uint8Array,
): Buffer {
  const digest = createHash('sha256').update(Uint8Array.of(RECORD_ID_VERSION, signal))
  const length = Buffer.alloc(4)
  for (const field of [Buffer.from(tenant), Buffer.from(dataset), resource, scope]) {
    length.writeUInt32BE(field.length, 0)
    digest.update(length).update(field)
  }
  return digest.digest()
}

/**
 * Writes the id of one record as four big-endian words into words[at .. at + 4).
 *
 * @param prefix   of the record's group, from groupPrefix; never changed in place
 * @param bytes    holds the record at [start, end)
 * @param ordinal  number of identical records (same prefix, same bytes) before it in its batch
 * @param digest   SHA-256 of its whole batch when the record has no time, else null
 */
export function recordIdInto(
  words: Uint32Array,
  at: number,
  prefix: Buffer,
  bytes: Uint8Array,
  start: number,
  end: number,
  ordinal: number,
  digest: Buffer | null,
): void {
  if (prefix !== prefixInScratch) {
    prefix.copy(scratch, 0)
    prefixInScratch = prefix
  }
  scratch[PREFIX_BYTES] = ordinal >>> 24
  scratch[PREFIX_BYTES + 1] = ordinal >>> 16
  scratch[PREFIX_BYTES + 2] = ordinal >>> 8
  scratch[PREFIX_BYTES + 3] = ordinal
  scratch[PREFIX_BYTES + 4] = digest === null ? 0 : 1
  if (digest !== null) digest.copy(scratch, HEAD_BYTES)
  const recordAt = digest === null ? HEAD_BYTES : HEAD_BYTES + DIGEST_BYTES
  const messageBytes = recordAt + end - start
  // As 'binary', one character a byte, the digest comes back without a Buffer being made for it.
  let id: string
  if (messageBytes <= SCRATCH_BYTES) {
    asBuffer(bytes).copy(scratch, recordAt, start, end) // a little cheaper than set() of a subarray
    id = hash('sha256', scratchHead(messageBytes), 'binary')
  } else {
    const head = scratch.subarray(0, recordAt)
    id = createHash('sha256').update(head).update(bytes.subarray(start, end)).digest('binary')
  }
  for (let i = 0; i < 4; i++) {
    words[at + i] =
      (id.charCodeAt(4 * i) << 24) |
      (id.charCodeAt(4 * i + 1) << 16) |
      (id.charCodeAt(4 * i + 2) << 8) |
      id.charCodeAt(4 * i + 3)
  }
}

const scratchHead = (bytes: number): Buffer =>
  bytes > HEADS_BYTES_MAX ? scratch.subarray(0, bytes) : (heads[bytes] ??= scratch.subarray(0, bytes))

const asBuffer = (bytes: Uint8Array): Buffer =>
  bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** `logstore_` and 32 lower-case hexadecimal digits. */
export function formatRecordId(words: Uint32Array, at: number): string {
  let text = RECORD_ID_TEXT_PREFIX
  for (let i = at; i < at + 4; i++) text += words[i]!.toString(16).padStart(8, '0')
  return text
}

/** False when the text is not what formatRecordId writes; words[at .. at + 4) are then unchanged. */
export function parseRecordId(text: string, words: Uint32Array, at: number): boolean {
  if (!/^logstore_[0-9a-f]{32}$/.test(text)) return false
  for (let i = 0; i < 4; i++) {
    const digit = RECORD_ID_TEXT_PREFIX.length + 8 * i
    words[at + i] = Number.parseInt(text.slice(digit, digit + 8), 16)
  }
  return true
}
