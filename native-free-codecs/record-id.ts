/**
 * Deterministic record ids: the same record sent again has the same id, and two different records never share one.
 *
 *   id = the first 16 bytes of BLAKE2s-256 over a head of 64 bytes and the bytes of the record (hashed by blake2s.ts)
 *
 *   offset  bytes  field        meaning
 *        0     32  prefix       digest of everything the records of a group have in common, see groupPrefix
 *       32      4  ordinal      u32 big-endian: number of identical records before it in its batch
 *       36      1  kind         0: the record has a time, and 0 follows; 1: it has none, and the batch digest follows
 *       37     27  batchDigest  kind 1: the first bytes of the SHA-256 of the whole batch
 *       64      …  record       the bytes of the record, to the end
 *
 * - Only the last field varies in length, so no two inputs give the same message.
 * - A timed record keeps its id in whatever batch it comes. A record without a time is only ever equal to itself in a retry of the same batch, so
 *   that de-duplication cannot drop events that merely look alike.
 * - Identical records of one batch are different records: the ordinal tells them apart.
 *
 * As text see record-id-text.ts.
 *
 * Why BLAKE2s and not SHA-256: a batch of them takes half the time, as it is hashed in one call, four records at a time.
 */
import { createHash } from 'node:crypto'
import { HEAD_BYTES } from './blake2s.ts'

/** Part of every id: a change of what goes in is a new version, and then old ids stop matching retries. */
const RECORD_ID_VERSION = 1

const ORDINAL_AT = 32
const KIND_AT = 36
const DIGEST_AT = 37

/**
 * What the records of one group (one resource, one scope) have in common.
 *
 *   version u8 · signal u8 · tenant · dataset · resource · scope     each of the four: length u32 big-endian, then its bytes;
 *                                                                    if a schema URL is there, those of resource and scope likewise
 *
 * @param signal    a number below 256 that stands for log or trace
 * @param resource  its bytes as they came; empty when absent
 * @param scope     likewise
 * @param resourceSchemaUrl  its bytes as they came; empty when absent
 * @param scopeSchemaUrl     likewise
 * @returns a digest of 32 bytes
 */
export function groupPrefix(
  tenant: string,
  dataset: string,
  signal: number,
  resource: Uint8Array,
  scope: Uint8Array,
  resourceSchemaUrl: Uint8Array,
  scopeSchemaUrl: Uint8Array,
): Buffer {
  const digest = createHash('sha256').update(Uint8Array.of(RECORD_ID_VERSION, signal))
  const length = Buffer.alloc(4)
  const schemaUrls = resourceSchemaUrl.length + scopeSchemaUrl.length > 0 ? [resourceSchemaUrl, scopeSchemaUrl] : []
  for (const field of [Buffer.from(tenant), Buffer.from(dataset), resource, scope, ...schemaUrls]) {
    length.writeUInt32BE(field.length, 0)
    digest.update(length).update(field)
  }
  return digest.digest()
}

/**
 * Writes the head of a record's message into heads[at .. at + HEAD_BYTES).
 *
 * @param prefix       of the record's group, from groupPrefix
 * @param ordinal      number of identical records (same prefix, same bytes) before it in its batch
 * @param batchDigest  SHA-256 of its whole batch when the record has no time, else null
 */
export function writeRecordHead(
  heads: Buffer,
  at: number,
  prefix: Buffer,
  ordinal: number,
  batchDigest: Buffer | null,
): void {
  prefix.copy(heads, at)
  heads.writeUInt32BE(ordinal, at + ORDINAL_AT)
  heads[at + KIND_AT] = batchDigest === null ? 0 : 1
  if (batchDigest === null) heads.fill(0, at + DIGEST_AT, at + HEAD_BYTES)
  else batchDigest.copy(heads, at + DIGEST_AT, 0, HEAD_BYTES - DIGEST_AT)
}

/** Changes the ordinal in the head at heads[at .. at + HEAD_BYTES). */
export function writeRecordOrdinal(heads: Buffer, at: number, ordinal: number): void {
  heads.writeUInt32BE(ordinal, at + ORDINAL_AT)
}
