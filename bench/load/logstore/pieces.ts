/**
 * Bytes with holes: text or wire format in which the places that change from batch to batch are known.
 *
 * Encoders put pieces together once, at the start; stamping then overwrites the holes of the finished template in place.
 * A hole has a fixed width, so no length around it ever changes.
 */
import assert from 'node:assert/strict'

/** What goes into a hole. `Parent` is the span id of the first span of the trace; roots and logs have none. */
export const Field = { Time: 0, SecondTime: 1, Sequence: 2, TraceId: 3, SpanId: 4, Parent: 5 } as const
export type Field = (typeof Field)[keyof typeof Field]
export const FIELD_COUNT = 6

interface Hole {
  readonly record: number
  readonly field: Field
  readonly offset: number
}

export interface Piece {
  readonly bytes: Buffer
  readonly holes: readonly Hole[]
  /** Where the dataset's number goes; -1: nowhere in this piece. */
  readonly datasetOffset: number
}

export function text(value: string): Piece {
  return raw(Buffer.from(value))
}

export function raw(bytes: Buffer): Piece {
  return { bytes, holes: [], datasetOffset: -1 }
}

export function hole(record: number, field: Field, widthBytes: number): Piece {
  return { bytes: Buffer.alloc(widthBytes), holes: [{ record, field, offset: 0 }], datasetOffset: -1 }
}

export function datasetHole(widthBytes: number): Piece {
  return { bytes: Buffer.alloc(widthBytes, '0'), holes: [], datasetOffset: 0 }
}

export function join(pieces: readonly Piece[]): Piece {
  const holes: Hole[] = []
  let datasetOffset = -1
  let offset = 0
  for (const piece of pieces) {
    for (const hole of piece.holes) holes.push({ ...hole, offset: hole.offset + offset })
    if (piece.datasetOffset >= 0) {
      assert(datasetOffset < 0)
      datasetOffset = piece.datasetOffset + offset
    }
    offset += piece.bytes.byteLength
  }
  return { bytes: Buffer.concat(pieces.map((piece) => piece.bytes)), holes, datasetOffset }
}

/** One batch, ready to be stamped again and again. */
export interface Template {
  readonly bytes: Buffer
  readonly recordCount: number
  /** FIELD_COUNT offsets into `bytes` a record, 0 for a field it does not have. */
  readonly offsets: Uint32Array
  /** Added to Time to give SecondTime, per record. */
  readonly secondTimeDeltaNs: Uint32Array
  readonly datasetOffset: number
}

export function toTemplate(batch: Piece, secondTimeDeltaNs: readonly number[]): Template {
  const offsets = new Uint32Array(secondTimeDeltaNs.length * FIELD_COUNT)
  for (const { record, field, offset } of batch.holes) {
    assert(offset > 0 && offsets[record * FIELD_COUNT + field] === 0)
    offsets[record * FIELD_COUNT + field] = offset
  }
  return {
    bytes: batch.bytes,
    recordCount: secondTimeDeltaNs.length,
    offsets,
    secondTimeDeltaNs: Uint32Array.from(secondTimeDeltaNs),
    datasetOffset: batch.datasetOffset,
  }
}

/** For another connection: stamping one leaves the other alone. */
export function copyTemplate(template: Template): Template {
  return { ...template, bytes: Buffer.from(template.bytes) }
}
