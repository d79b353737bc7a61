/**
 * A batch in the protobuf wire format. Field numbers are those of opentelemetry-proto 1.x; an encoder of our own,
 * because the point is to know where every time and id ended up.
 */
import { DATASET_DIGITS, SEQUENCE_DIGITS } from './record-model.ts'
import type { Attribute, AttributeValue, RecordModel, ResourceModel, Signal } from './record-model.ts'
import { datasetHole, Field, hole, join, raw, text } from './pieces.ts'
import type { Piece } from './pieces.ts'

const WIRE_VARINT = 0
const WIRE_FIXED64 = 1
const WIRE_BYTES = 2
const WIRE_FIXED32 = 5
const TRACE_FLAGS_SAMPLED = 1

export function protobufBatch(resource: ResourceModel, records: readonly Piece[]): Piece {
  const serviceName = resource.numbered
    ? join([text(`${resource.dataset}-`), datasetHole(DATASET_DIGITS)])
    : text(resource.dataset)
  const resourceMessage = join([
    message(1, keyValue('service.name', message(1, serviceName))),
    ...resource.attributes.map((attribute) => message(1, attributeMessage(attribute))),
  ])
  const scope = join([message(1, text(resource.scopeName)), message(2, text(resource.scopeVersion))])
  const scopeRecords = join([message(1, scope), ...records]) // logs and traces: same numbers
  return message(1, join([message(1, resourceMessage), message(2, scopeRecords)]))
}

/** One repeated field of ScopeLogs or ScopeSpans, tag and length included. */
export function protobufRecord(signal: Signal, model: RecordModel, record: number, hasParent: boolean): Piece {
  return message(2, signal === 'logs' ? logRecord(model, record) : span(model, record, hasParent))
}

function logRecord(model: RecordModel, record: number): Piece {
  return join([
    fixed64(1, hole(record, Field.Time, 8)),
    fixed64(11, hole(record, Field.SecondTime, 8)), // observed_time_unix_nano
    varintField(2, model.severityNumber),
    message(3, text(model.severityText)),
    message(
      5,
      message(1, join([text('request '), hole(record, Field.Sequence, SEQUENCE_DIGITS), text(` ${model.message}`)])),
    ),
    ...model.attributes.map((attribute) => message(6, attributeMessage(attribute))),
    fixed32(8, TRACE_FLAGS_SAMPLED),
    message(9, hole(record, Field.TraceId, 16)),
    message(10, hole(record, Field.SpanId, 8)),
  ])
}

function span(model: RecordModel, record: number, hasParent: boolean): Piece {
  return join([
    message(1, hole(record, Field.TraceId, 16)),
    message(2, hole(record, Field.SpanId, 8)),
    ...(hasParent ? [message(4, hole(record, Field.Parent, 8))] : []),
    message(5, text(model.spanName)),
    varintField(6, model.spanKind),
    fixed64(7, hole(record, Field.Time, 8)),
    fixed64(8, hole(record, Field.SecondTime, 8)), // end_time_unix_nano
    message(9, keyValue('request.id', message(1, hole(record, Field.Sequence, SEQUENCE_DIGITS)))),
    message(9, attributeMessage(['db.query.summary', model.message])),
    ...model.attributes.map((attribute) => message(9, attributeMessage(attribute))),
    message(15, varintField(3, model.severityNumber >= 17 ? 2 : 1)), // status.code ERROR or OK
    fixed32(16, TRACE_FLAGS_SAMPLED),
  ])
}

function attributeMessage([key, value]: Attribute): Piece {
  return keyValue(key, anyValue(value))
}

function keyValue(key: string, value: Piece): Piece {
  return join([message(1, text(key)), message(2, value)])
}

function anyValue(value: AttributeValue): Piece {
  if (typeof value === 'string') return message(1, text(value))
  if ('int' in value) return varintField(3, value.int)
  const double = Buffer.alloc(8)
  double.writeDoubleLE(value.double)
  return fixed64(4, raw(double))
}

function message(field: number, content: Piece): Piece {
  return join([tag(field, WIRE_BYTES), varint(content.bytes.byteLength), content])
}

function varintField(field: number, value: number): Piece {
  return join([tag(field, WIRE_VARINT), varint(value)])
}

function fixed64(field: number, value: Piece): Piece {
  return join([tag(field, WIRE_FIXED64), value])
}

function fixed32(field: number, value: number): Piece {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return join([tag(field, WIRE_FIXED32), raw(bytes)])
}

function tag(field: number, wireType: number): Piece {
  return varint(field * 8 + wireType)
}

/** @param value integer in [0, 2^32) */
function varint(value: number): Piece {
  const bytes = []
  let rest = value
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
  return raw(Buffer.from(bytes))
}
