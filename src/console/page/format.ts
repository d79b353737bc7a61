/** Numbers, sizes and times in the visitor's own locale, and their exact values. */

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
const precise = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 })
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const moment = new Intl.DateTimeFormat(undefined, {
  month: 'short',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
})
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' })

export const exact = (count: number): string => whole.format(count)

export const compact = (count: number): string => (Math.abs(count) < 10_000 ? whole.format(count) : short.format(count))

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

export function bytes(count: number): string {
  const power = count < 1024 ? 0 : Math.min(BYTE_UNITS.length - 1, Math.floor(Math.log2(count) / 10))
  return `${power === 0 ? whole.format(count) : precise.format(count / 1024 ** power)} ${BYTE_UNITS[power]}`
}

export const exactBytes = (count: number): string => `${whole.format(count)} bytes`

/** A number of things a second. */
export const rate = (perSecond: number): string =>
  `${perSecond >= 1000 ? short.format(perSecond) : precise.format(perSecond)}/s`

export const byteRate = (perSecond: number): string => `${bytes(Math.round(perSecond))}/s`

export const time = (ms: number): string => dateTime.format(ms)

/** A moment of this year to the millisecond, from nanoseconds. */
export const momentOf = (nano: string): string => moment.format(msOf(nano))

/** A moment with all its digits, from nanoseconds. */
export const exactTime = (nano: string): string =>
  new Date(msOf(nano)).toISOString().replace(/\d{3}Z$/, `${nano.slice(-9).padStart(9, '0')}Z`)

/** To the microsecond: no number has more digits of today's nanoseconds. */
export const msOf = (nano: string): number => Number(BigInt(nano) / 1000n) / 1000

/** What newer browsers have: numbers as they were written. */
interface ExactJson {
  readonly rawJSON?: (text: string) => unknown
  readonly parse: (
    text: string,
    revive: (name: string, value: unknown, context?: { source?: string }) => unknown,
  ) => unknown
}

/** With indents, and every digit that numbers have. @throws SyntaxError when the text is no JSON */
export function prettyJson(text: string): string {
  const { parse, rawJSON } = JSON as ExactJson // what the types do not know yet
  if (rawJSON === undefined) {
    JSON.parse(text)
    return text
  }
  const raw = parse(text, (_name, value, context) =>
    typeof value === 'number' && context?.source !== undefined ? rawJSON(context.source) : value,
  )
  return JSON.stringify(raw, null, 2)
}

const DURATIONS = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
  [1, 's'],
] as const

/** `2 d 3 h`, `4.2 s`, `350 µs`. */
export function duration(seconds: number): string {
  if (seconds < 0.001) return `${precise.format(seconds * 1e6)} µs`
  if (seconds < 1) return `${precise.format(seconds * 1000)} ms`
  if (seconds < 60) return `${precise.format(seconds)} s`
  const first = DURATIONS.findIndex(([length]) => seconds >= length)
  const [length, unit] = DURATIONS[first]!
  const next = DURATIONS[first + 1]
  const count = Math.floor(seconds / length)
  const rest = next ? Math.floor((seconds - count * length) / next[0]) : 0
  return rest > 0 ? `${count} ${unit} ${rest} ${next![1]}` : `${count} ${unit}`
}

const digits = new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 })

export const exactDuration = (seconds: number): string => `${digits.format(seconds)} s`

export const exactRate = (perSecond: number): string => `${digits.format(perSecond)} a second`

/** `3 min ago`, `in 20 s`. */
export function ago(ms: number, nowMs: number): string {
  const seconds = (ms - nowMs) / 1000
  const size = Math.abs(seconds)
  if (size < 60) return relative.format(Math.round(seconds), 'second')
  if (size < 3600) return relative.format(Math.round(seconds / 60), 'minute')
  if (size < 86_400) return relative.format(Math.round(seconds / 3600), 'hour')
  return relative.format(Math.round(seconds / 86_400), 'day')
}
