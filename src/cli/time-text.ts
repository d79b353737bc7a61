/** Times as people write them on a command line. */
import { usageFailure } from './failure.ts'

const UNITS_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * Nanoseconds since the Unix epoch, from an age such as `15m` (s, m, h, d), from a date and time in ISO 8601, or from nanoseconds.
 *
 * @throws CliFailure that names the option
 */
export function timeOf(option: string, text: string, nowMs: number): string {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  if (count !== undefined) return nanoseconds(nowMs - Number(count) * UNITS_MS[unit!]!)
  if (/^\d{15,20}$/.test(text)) return text
  const ms = isDate(text) ? Date.parse(text) : NaN
  if (ms >= 0) return nanoseconds(ms)
  throw usageFailure(
    `${option} must be a time ago such as 15m (s, m, h, d), a time such as 2026-01-31T12:00:00Z, or nanoseconds since 1970`,
  )
}

const DATE = /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/i

/** Whether the text is of this form, and its day exists: Date.parse makes 2 March of 30 February. */
function isDate(text: string): boolean {
  const [, day] = DATE.exec(text) ?? []
  if (day === undefined) return false
  const date = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(day)
}

const nanoseconds = (ms: number): string => String(BigInt(Math.max(0, Math.floor(ms))) * 1_000_000n)

/** In UTC, to the millisecond. */
export const shownNanoseconds = (text: string): string => new Date(Number(BigInt(text) / 1_000_000n)).toISOString()

export function shownDuration(nanoseconds: string): string {
  const ms = Number(nanoseconds) / 1e6
  if (Math.abs(ms) >= 1000) return `${(ms / 1000).toFixed(2)} s`
  return `${ms.toFixed(Math.abs(ms) >= 10 ? 0 : 2)} ms`
}
