/** The same batch as OTLP JSON text: 64-bit integers as strings, ids in hexadecimal. */
import { DATASET_DIGITS, SEQUENCE_DIGITS } from './record-model.ts'
import type { AttributeValue, RecordModel, ResourceModel, Signal } from './record-model.ts'
import { datasetHole, Field, hole, join, text } from './pieces.ts'
import type { Piece } from './pieces.ts'

/** Nanoseconds since 1970 have 19 decimal digits from 2001 to 2286. */
const TIME_DIGITS = 19

export function jsonBatch(signal: Signal, resource: ResourceModel, records: readonly Piece[]): Piece {
  const names =
    signal === 'logs' ? ['resourceLogs', 'scopeLogs', 'logRecords'] : ['resourceSpans', 'scopeSpans', 'spans']
  const [resourcesName, scopesName, recordsName] = names
  const attributes = resource.attributes.map(([key, value]) => `,${keyValue(key, value)}`).join('')
  const scope = JSON.stringify({ name: resource.scopeName, version: resource.scopeVersion })
  return join([
    text(`{"${resourcesName}":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"`),
    text(JSON.stringify(resource.dataset).slice(1, -1)),
    ...(resource.numbered ? [text('-'), datasetHole(DATASET_DIGITS)] : []),
    text(`"}}${attributes}]},"${scopesName}":[{"scope":${scope},"${recordsName}":[`),
    ...records.flatMap((record, index) => (index === 0 ? [record] : [text(','), record])),
    text(']}]}]}'),
  ])
}

export function jsonRecord(signal: Signal, model: RecordModel, record: number, hasParent: boolean): Piece {
  return signal === 'logs' ? logRecord(model, record) : span(model, record, hasParent)
}

function logRecord(model: RecordModel, record: number): Piece {
  return join([
    text('{"timeUnixNano":"'),
    hole(record, Field.Time, TIME_DIGITS),
    text('","observedTimeUnixNano":"'),
    hole(record, Field.SecondTime, TIME_DIGITS),
    text(`","severityNumber":${model.severityNumber},"severityText":"${model.severityText}"`),
    text(',"body":{"stringValue":"request '),
    hole(record, Field.Sequence, SEQUENCE_DIGITS),
    text(` ${model.message}"},"attributes":[${attributeList(model)}],"flags":1,"traceId":"`),
    hole(record, Field.TraceId, 32),
    text('","spanId":"'),
    hole(record, Field.SpanId, 16),
    text('"}'),
  ])
}

function span(model: RecordModel, record: number, hasParent: boolean): Piece {
  return join([
    text('{"traceId":"'),
    hole(record, Field.TraceId, 32),
    text('","spanId":"'),
    hole(record, Field.SpanId, 16),
    ...(hasParent ? [text('","parentSpanId":"'), hole(record, Field.Parent, 16)] : []),
    text(`","name":${JSON.stringify(model.spanName)},"kind":${model.spanKind},"startTimeUnixNano":"`),
    hole(record, Field.Time, TIME_DIGITS),
    text('","endTimeUnixNano":"'),
    hole(record, Field.SecondTime, TIME_DIGITS),
    text('","attributes":[{"key":"request.id","value":{"stringValue":"'),
    hole(record, Field.Sequence, SEQUENCE_DIGITS),
    text(`"}},${keyValue('db.query.summary', model.message)}`),
    text(model.attributes.length > 0 ? `,${attributeList(model)}` : ''),
    text(`],"status":{"code":${model.severityNumber >= 17 ? 2 : 1}},"flags":1}`),
  ])
}

function attributeList(model: RecordModel): string {
  return model.attributes.map(([key, value]) => keyValue(key, value)).join(',')
}

function keyValue(key: string, value: AttributeValue): string {
  return `{"key":${JSON.stringify(key)},"value":${anyValue(value)}}`
}

function anyValue(value: AttributeValue): string {
  if (typeof value === 'string') return `{"stringValue":${JSON.stringify(value)}}`
  return 'int' in value ? `{"intValue":"${value.int}"}` : `{"doubleValue":${value.double}}`
}
