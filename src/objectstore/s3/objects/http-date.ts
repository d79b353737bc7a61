/** Points in time in headers. They have whole seconds, so comparisons with them go by whole seconds. */

/** The form that this service and all others write: `Fri, 20 Nov 2026 09:30:05 GMT`. */
export const httpDate = (timeMs: number): string => new Date(timeMs).toUTCString()

/** Forms of HTTP, the older ones included, and that of XML, which some clients send. */
const WITH_ZONE = /^(?:[A-Za-z]{3,9}, .{10,30} (?:GMT|UTC|[+-]0000)|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)$/
const ASCTIME = /^[A-Za-z]{3} [A-Za-z]{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$/

/** Milliseconds since the epoch; null for a text that is no date: HTTP ignores a condition on it. */
export function parseHttpDate(text: string): number | null {
  const timeMs = WITH_ZONE.test(text) ? Date.parse(text) : ASCTIME.test(text) ? Date.parse(`${text} GMT`) : Number.NaN
  return Number.isNaN(timeMs) ? null : timeMs
}

/** The time of a change in seconds, as headers show it. */
export const wholeSeconds = (timeMs: number): number => Math.floor(timeMs / 1000) * 1000
