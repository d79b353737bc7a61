/** What records say, as text. Everything that comes from a record is shown as text and nothing else. */
import type { AnyValue, Attribute, StoredRecord } from './api.ts'

/** JSON's own value of one of OTLP's; numbers beyond what JavaScript holds stay texts. */
function plain(value: AnyValue | undefined): unknown {
  if (value === undefined) return null
  if (value.stringValue !== undefined) return value.stringValue
  if (value.boolValue !== undefined) return value.boolValue
  if (value.intValue !== undefined) {
    const number = Number(value.intValue)
    return Number.isSafeInteger(number) ? number : String(value.intValue)
  }
  if (value.doubleValue !== undefined) return value.doubleValue
  if (value.bytesValue !== undefined) return value.bytesValue
  if (value.arrayValue !== undefined) return (value.arrayValue.values ?? []).map(plain)
  if (value.kvlistValue !== undefined) {
    return Object.fromEntries((value.kvlistValue.values ?? []).map((each) => [each.key, plain(each.value)]))
  }
  return null
}

export function valueText(value: AnyValue | undefined, spaces = 0): string {
  const shown = plain(value)
  return typeof shown === 'string' ? shown : shown === null ? '' : JSON.stringify(shown, null, spaces)
}

/** True when a search can compare the whole value. */
export const isComparable = ({ value }: Attribute): boolean =>
  value !== undefined && value.arrayValue === undefined && value.kvlistValue === undefined && valueText(value) !== ''

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const
export type Level = (typeof LEVELS)[number]
export const SEVERITIES: readonly Level[] = LEVELS

const NUMBERS_PER_LEVEL = 4

/** Null: the record has no severity, as spans have none. */
export function levelOf({ severity_number: number, raw_payload: { record } }: StoredRecord): Level | null {
  if (number !== undefined && number > 0) return LEVELS[Math.ceil(number / NUMBERS_PER_LEVEL) - 1] ?? 'fatal'
  const word = record.severityText?.toLowerCase()
  return LEVELS.find((level) => level === word) ?? null
}

/** The line that a list shows for the record. */
export function lineOf({ signal, raw_payload: { record } }: StoredRecord): string {
  if (signal === 'trace') return record.name ?? ''
  const text = valueText(record.body)
  return record.eventName && text === '' ? record.eventName : text
}

const STATUS_ERROR = 2
export const isFailed = ({ status }: StoredRecord['raw_payload']['record']): boolean => status?.code === STATUS_ERROR

const KINDS = ['unspecified', 'internal', 'server', 'client', 'producer', 'consumer']
export const kindName = (kind: number | undefined): string => KINDS[kind ?? 0] ?? String(kind)

/** Duration of a span; null: it has no end. */
export function durationNano({
  startTimeUnixNano,
  endTimeUnixNano,
}: StoredRecord['raw_payload']['record']): number | null {
  if (startTimeUnixNano === undefined || endTimeUnixNano === undefined) return null
  if (BigInt(endTimeUnixNano) === 0n) return null // it has no end yet
  return Math.max(0, Number(BigInt(endTimeUnixNano) - BigInt(startTimeUnixNano)))
}
