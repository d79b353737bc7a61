/**
 * A trace in the JSON of Jaeger's query service, made of the OTLP JSON of its records: what Jaeger's own translation from OTLP does, as its
 * documents say.
 *
 *   times       whole microseconds; the rest of a nanosecond time is cut off
 *   references  CHILD_OF the parent; FOLLOWS_FROM for each link
 *   tags        attributes with types string, bool, int64, float64 and binary (base64); lists and maps as JSON in a string. Beside them
 *               span.kind, otel.status_code, otel.status_description, error, otel.scope.name, otel.scope.version, w3c.tracestate
 *   logs        events of the span, and the log records that name it (these with `message` and `severity`)
 *   processes   one for each different resource; serviceName is the dataset
 */
import { parseWithSource } from '../json-source.ts'
import type { Trace, TraceRecord } from './trace-record.ts'

/** JSON.stringify of a bigint's exact digits. */
// Node 22 has it (ECMAScript "JSON.parse source text access"); its types do not say so yet.
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => object }

interface Tag {
  readonly key: string
  readonly type: 'string' | 'bool' | 'int64' | 'float64' | 'binary'
  readonly value: unknown
}

type Members = Readonly<Record<string, unknown>>

export function jaegerTrace({ traceId, records, matched, quarantined }: Trace): string {
  const processes = new Processes()
  const logsOf = new Map<string, object[]>()
  for (const record of records) {
    if (!record.isLog || record.spanId === null) continue
    const logs = logsOf.get(record.spanId) ?? []
    logs.push(logOf(record))
    logsOf.set(record.spanId, logs)
  }
  const spans = records
    .filter(({ isLog }) => !isLog)
    .map((record) => {
      const span = spanOf(traceId, record, processes, logsOf.get(record.spanId ?? '') ?? [])
      logsOf.delete(record.spanId ?? '') // if several spans have this id, the first one gets the logs
      return span
    })
  const cut = matched - records.length
  const warnings = [
    ...(cut > 0 ? [`${cut} more records of this trace are not shown`] : []),
    ...(quarantined > 0 ? [`${quarantined} more records of this trace are damaged`] : []),
  ]
  return JSON.stringify({
    traceID: traceId,
    spans,
    processes: processes.all,
    warnings: warnings.length === 0 ? null : warnings,
  })
}

class Processes {
  readonly all: Record<string, { readonly serviceName: string; readonly tags: readonly Tag[] }> = {}
  readonly #ids = new Map<string, string>()

  idOf(serviceName: string, resource: Members): string {
    const tags = tagsOf(resource['attributes']).filter(({ key }) => key !== 'service.name')
    const text = JSON.stringify([serviceName, tags])
    let id = this.#ids.get(text)
    if (id === undefined) {
      id = `p${this.#ids.size + 1}`
      this.#ids.set(text, id)
      this.all[id] = { serviceName, tags }
    }
    return id
  }
}

const KINDS = [null, 'internal', 'server', 'client', 'producer', 'consumer']

function spanOf(traceID: string, record: TraceRecord, processes: Processes, logs: readonly object[]): object {
  const { resource, scope, span } = partsOf(record)
  const links = listOf(span['links']).map(membersOf)
  const references = [
    ...(record.parentSpanId === null ? [] : [{ refType: 'CHILD_OF', traceID, spanID: record.parentSpanId }]),
    ...links.map(({ traceId, spanId }) => ({
      refType: 'FOLLOWS_FROM',
      traceID: textOf(traceId).toLowerCase(),
      spanID: textOf(spanId).toLowerCase(),
    })),
  ]
  const duration = record.endTime - record.startTime
  return {
    traceID,
    spanID: record.spanId ?? '',
    flags: 1,
    operationName: record.name,
    references,
    startTime: microseconds(record.startTime),
    duration: duration > 0n ? microseconds(duration) : 0,
    tags: [...tagsOf(span['attributes']), ...fieldTags(span, scope)],
    logs: [...listOf(span['events']).map((event) => eventOf(membersOf(event))), ...logs],
    processID: processes.idOf(record.dataset, resource),
    warnings: null,
  }
}

/** What Jaeger has no field for. */
function fieldTags(span: Members, scope: Members): Tag[] {
  const tags: Tag[] = []
  const add = (key: string, value: string): void => {
    if (value !== '') tags.push({ key, type: 'string', value })
  }
  add('span.kind', KINDS[Number(span['kind'])] ?? '')
  const status = membersOf(span['status'])
  const code = Number(status['code'] ?? 0)
  add('otel.status_code', code === 1 ? 'OK' : code === 2 ? 'ERROR' : '')
  if (code === 2) tags.push({ key: 'error', type: 'bool', value: true })
  add('otel.status_description', textOf(status['message']))
  add('otel.scope.name', textOf(scope['name']))
  add('otel.scope.version', textOf(scope['version']))
  add('w3c.tracestate', textOf(span['traceState']))
  return tags
}

function eventOf(event: Members): object {
  const name: Tag = { key: 'event', type: 'string', value: textOf(event['name']) }
  const time = /^[0-9]{1,20}$/.test(textOf(event['timeUnixNano'])) ? BigInt(textOf(event['timeUnixNano'])) : 0n
  return { timestamp: microseconds(time), fields: [name, ...tagsOf(event['attributes'])] }
}

function logOf(record: TraceRecord): object {
  const { span: log } = partsOf(record)
  const message = tagOf('message', log['body'])
  const severity = textOf(log['severityText'])
  const fields = [
    ...(message === null ? [] : [message]),
    ...(severity === '' ? [] : [{ key: 'severity', type: 'string', value: severity }]),
    ...tagsOf(log['attributes']),
  ]
  return { timestamp: microseconds(record.startTime), fields }
}

const microseconds = (nanoseconds: bigint): number => Number(nanoseconds / 1000n)

/** Parts of a record's OTLP JSON; whole numbers keep the text in which they were written. */
function partsOf({ json }: TraceRecord): { resource: Members; scope: Members; span: Members } {
  const parsed = parseWithSource(json, (_key, value, { source }) =>
    typeof value === 'number' && /^-?[0-9]+$/.test(source) ? source : value,
  )
  const payload = membersOf(membersOf(parsed)['raw_payload'])
  return {
    resource: membersOf(payload['resource']),
    scope: membersOf(payload['scope']),
    span: membersOf(payload['record']),
  }
}

function tagsOf(attributes: unknown): Tag[] {
  return listOf(attributes).flatMap((attribute) => {
    const { key, value } = membersOf(attribute)
    return tagOf(textOf(key), value) ?? []
  })
}

/** Null: there is no value. A null member of the value stands for an absent one. */
function tagOf(key: string, given: unknown): Tag | null {
  const { stringValue, boolValue, intValue, doubleValue, bytesValue, arrayValue, kvlistValue } = membersOf(given)
  if (isThere(stringValue)) return { key, type: 'string', value: textOf(stringValue) }
  if (isThere(boolValue)) return { key, type: 'bool', value: boolValue === true }
  if (isThere(intValue)) return integerTag(key, textOf(intValue))
  if (isThere(doubleValue)) {
    const number = Number(doubleValue)
    // JSON has no NaN and no infinities.
    return Number.isFinite(number)
      ? { key, type: 'float64', value: number }
      : { key, type: 'string', value: textOf(doubleValue) }
  }
  if (isThere(bytesValue)) return { key, type: 'binary', value: textOf(bytesValue) }
  if (isThere(arrayValue) || isThere(kvlistValue)) {
    return { key, type: 'string', value: JSON.stringify(plainOf(given)) }
  }
  return null
}

const isThere = (value: unknown): boolean => value !== undefined && value !== null

const integerTag = (key: string, digits: string): Tag =>
  /^-?[0-9]{1,19}$/.test(digits)
    ? { key, type: 'int64', value: rawJSON(String(BigInt(digits))) }
    : { key, type: 'string', value: digits }

/** An AnyValue as the JSON that people would write. */
function plainOf(given: unknown): unknown {
  const { arrayValue, kvlistValue } = membersOf(given)
  if (isThere(arrayValue)) return listOf(membersOf(arrayValue)['values']).map(plainOf)
  if (isThere(kvlistValue)) {
    const entries = listOf(membersOf(kvlistValue)['values']).map(membersOf)
    return Object.fromEntries(entries.map(({ key, value }) => [textOf(key), plainOf(value)]))
  }
  return tagOf('', given)?.value ?? null
}

// A JSON batch is stored as it was sent, so a member may have any type. A wrong one counts as absent.

const membersOf = (value: unknown): Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : {} // by the checks beside it

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const textOf = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
