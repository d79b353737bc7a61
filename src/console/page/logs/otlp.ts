/** What records say, as text. Everything that comes from a record is shown as text and nothing else. */
import type { AnyValue, Attribute, StoredRecord, Time } from './stored-record.ts'

/** JSON's own value of one of OTLP's; numbers beyond what JavaScript holds stay texts. Null stands for an absent member, and its neighbour counts. */
function plain(value: AnyValue | null | undefined): unknown {
  const { stringValue, boolValue, intValue, doubleValue, bytesValue, arrayValue, kvlistValue } = value ?? {}
  const single = stringValue ?? boolValue ?? wholeOf(intValue) ?? doubleValue ?? bytesValue
  if (single !== undefined && single !== null) return single
  if (arrayValue) return (arrayValue.values ?? []).map(plain)
  if (kvlistValue) return Object.fromEntries((kvlistValue.values ?? []).map((each) => [each.key, plain(each.value)]))
  return null
}

function wholeOf(value: string | number | null | undefined): string | number | null {
  if (value === undefined || value === null) return null
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : String(value)
}

export function valueText(value: AnyValue | null | undefined, spaces = 0): string {
  const shown = plain(value)
  return typeof shown === 'string' ? shown : shown === null ? '' : JSON.stringify(shown, null, spaces)
}

/** True when a search can compare the whole value. */
export const isComparable = ({ value }: Attribute): boolean =>
  !value?.arrayValue && !value?.kvlistValue && valueText(value) !== ''

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
export const kindName = (kind: number | null | undefined): string => KINDS[kind ?? 0] ?? String(kind)

/** As the log store takes times: `17e17` and `1700000000000000000.0` are whole numbers, too. */
const WHOLE = /^(\d+)(?:\.(\d+))?(?:e\+?(-?\d+))?$/i
const DIGITS_MAX = 20

/** A time as it was sent, in nanoseconds; 0: there is none. */
export function nanoOf(sent: Time | undefined): bigint {
  const [, whole = '', fraction = '', exponent = '0'] = WHOLE.exec(String(sent ?? '')) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const count = digits.length + Number(exponent) - fraction.length
  return count > 0 && count <= DIGITS_MAX ? BigInt(digits.padEnd(count, '0').slice(0, count)) : 0n
}

/** Duration of a span; null: it has no start or no end. */
export function durationNano({
  startTimeUnixNano,
  endTimeUnixNano,
}: StoredRecord['raw_payload']['record']): number | null {
  const [start, end] = [nanoOf(startTimeUnixNano), nanoOf(endTimeUnixNano)]
  if (start === 0n || end === 0n) return null // it has no start, or no end yet
  return Math.max(0, Number(end - start))
}
