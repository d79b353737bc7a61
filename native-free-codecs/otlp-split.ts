/**
 * Cuts a scanned batch into smaller ones of the same form: what a sender would have sent, had it sent fewer records at a time.
 *
 * The records of the parts are those described by the batch, in order. Each stands in the resource and scope that it came in, with their schema URLs,
 * byte for byte. Of a group only these ranges are kept; its members that OTLP does not know are dropped.
 *
 * S3  a part may name the whole, and its number in it, in a field that OTLP does not know: then parts of different wholes differ, and so do
 *     those of one, whatever records they have
 */
import assert from 'node:assert/strict'
import type { OtlpBatch } from './otlp-batch.ts'

export type BatchForm = 'logs protobuf' | 'traces protobuf' | 'logs json' | 'traces json'

/**
 * Bodies of at most `recordsMax` records each.
 *
 * @param whole a digest of the body, for S3; null: parts do not name it
 */
export function splitBatch(
  batch: OtlpBatch,
  body: Uint8Array,
  form: BatchForm,
  recordsMax: number,
  whole: Buffer | null = null,
): readonly Buffer[] {
  const described = Math.min(batch.recordCount, batch.capacity)
  const parts: Buffer[] = []
  for (let from = 0; from < described; from += recordsMax) {
    const to = Math.min(described, from + recordsMax)
    const name = whole === null ? null : `${whole.toString('hex')} ${parts.length}`
    parts.push(
      form.endsWith('json') ? jsonPart(batch, body, form, from, to, name) : protobufPart(batch, body, from, to, name),
    )
  }
  return parts
}

/** Longest tag with a length: one byte, and a varint of 32 bits. */
const FIELD_BYTES = 6
const FIRST_FIELD = 0x0a
const SECOND_FIELD = 0x12
const THIRD_FIELD = 0x1a
/** S3. The last number of a tag of one byte; in JSON it has a name. */
const NAME_FIELD = 0x7a
const NAME_MEMBER = 'trilogPart'

/** Logs and traces have the same field numbers. Written from its end, so that lengths are known when they are written. */
function protobufPart(batch: OtlpBatch, body: Uint8Array, from: number, to: number, name: string | null): Buffer {
  const nameBytes = name === null ? 0 : FIELD_BYTES + name.length
  const into = Buffer.allocUnsafe(protobufBytesMax(batch, from, to) + nameBytes)
  let at = into.byteLength
  const bytes = (start: number, end: number): void => {
    at -= end - start
    into.set(body.subarray(start, end), at)
  }
  const head = (tag: number, length: number): void => {
    const varintBytes = length < 0x80 ? 1 : length < 0x4000 ? 2 : length < 0x20_0000 ? 3 : length < 0x1000_0000 ? 4 : 5
    at -= varintBytes
    let rest = length
    for (let i = 0; i < varintBytes; i++, rest = Math.floor(rest / 0x80)) {
      into[at + i] = (rest & 0x7f) | (i < varintBytes - 1 ? 0x80 : 0)
    }
    into[--at] = tag
  }
  const field = (tag: number, start: number, end: number): void => {
    if (end === 0) return // absent
    bytes(start, end)
    head(tag, end - start)
  }
  if (name !== null) {
    at -= name.length
    into.write(name, at, 'latin1')
    head(NAME_FIELD, name.length)
  }
  for (let record = to - 1; record >= from;) {
    const resource = batch.groupResource[batch.recordGroup[record]!]!
    const resourceEndsAt = at
    field(THIRD_FIELD, batch.resourceSchemaUrlStart[resource]!, batch.resourceSchemaUrlEnd[resource]!)
    while (record >= from && batch.groupResource[batch.recordGroup[record]!] === resource) {
      const group = batch.recordGroup[record]!
      const groupEndsAt = at
      field(THIRD_FIELD, batch.groupSchemaUrlStart[group]!, batch.groupSchemaUrlEnd[group]!)
      for (; record >= from && batch.recordGroup[record] === group; record--) {
        bytes(batch.recordStart[record]!, batch.recordEnd[record]!)
        head(SECOND_FIELD, batch.recordEnd[record]! - batch.recordStart[record]!)
      }
      field(FIRST_FIELD, batch.groupScopeStart[group]!, batch.groupScopeEnd[group]!)
      head(SECOND_FIELD, groupEndsAt - at)
    }
    field(FIRST_FIELD, batch.resourceStart[resource]!, batch.resourceEnd[resource]!)
    head(FIRST_FIELD, resourceEndsAt - at)
  }
  assert(at >= 0)
  return into.subarray(at)
}

function protobufBytesMax(batch: OtlpBatch, from: number, to: number): number {
  let bytes = 0
  let groupBefore = -1
  let resourceBefore = -1
  for (let record = from; record < to; record++) {
    bytes += FIELD_BYTES + batch.recordEnd[record]! - batch.recordStart[record]!
    const group = batch.recordGroup[record]!
    if (group === groupBefore) continue
    groupBefore = group
    bytes += 3 * FIELD_BYTES + batch.groupScopeEnd[group]! - batch.groupScopeStart[group]!
    bytes += batch.groupSchemaUrlEnd[group]! - batch.groupSchemaUrlStart[group]!
    const resource = batch.groupResource[group]!
    if (resource === resourceBefore) continue
    resourceBefore = resource
    bytes += 3 * FIELD_BYTES + batch.resourceEnd[resource]! - batch.resourceStart[resource]!
    bytes += batch.resourceSchemaUrlEnd[resource]! - batch.resourceSchemaUrlStart[resource]!
  }
  return bytes
}

const NAMES = {
  'logs json': { resources: 'resourceLogs', groups: 'scopeLogs', records: 'logRecords' },
  'traces json': { resources: 'resourceSpans', groups: 'scopeSpans', records: 'spans' },
} as const

/** Ranges of JSON are whole values, a schema URL's with its quotes. */
function jsonPart(
  batch: OtlpBatch,
  body: Uint8Array,
  form: BatchForm,
  from: number,
  to: number,
  name: string | null,
): Buffer {
  assert(form === 'logs json' || form === 'traces json')
  const { resources, groups, records } = NAMES[form]
  const pieces: Uint8Array[] = []
  const text = (value: string): number => pieces.push(Buffer.from(value))
  const member = (name: string, start: number, end: number, isLast: boolean): void => {
    if (end === 0) return // absent
    text(isLast ? `,"${name}":` : `"${name}":`)
    pieces.push(body.subarray(start, end))
    if (!isLast) text(',')
  }
  text(`{"${resources}":[`)
  for (let record = from; record < to;) {
    const resource = batch.groupResource[batch.recordGroup[record]!]!
    text(record === from ? '{' : ',{')
    member('resource', batch.resourceStart[resource]!, batch.resourceEnd[resource]!, false)
    text(`"${groups}":[`)
    for (let first = true; record < to && batch.groupResource[batch.recordGroup[record]!] === resource; first = false) {
      const group = batch.recordGroup[record]!
      text(first ? '{' : ',{')
      member('scope', batch.groupScopeStart[group]!, batch.groupScopeEnd[group]!, false)
      text(`"${records}":[`)
      for (let begun = false; record < to && batch.recordGroup[record] === group; record++, begun = true) {
        if (begun) text(',')
        pieces.push(body.subarray(batch.recordStart[record], batch.recordEnd[record]))
      }
      text(']')
      member('schemaUrl', batch.groupSchemaUrlStart[group]!, batch.groupSchemaUrlEnd[group]!, true)
      text('}')
    }
    text(']')
    member('schemaUrl', batch.resourceSchemaUrlStart[resource]!, batch.resourceSchemaUrlEnd[resource]!, true)
    text('}')
  }
  text(name === null ? ']}' : `],"${NAME_MEMBER}":"${name}"}`)
  return Buffer.concat(pieces)
}
