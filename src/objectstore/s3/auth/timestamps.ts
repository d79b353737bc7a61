/** Points in time as signatures have them: `20130524T000000Z`, or an HTTP date. */

const BASIC = /^(\d{4})(\d\d)(\d\d)T([01]\d|2[0-3])([0-5]\d)([0-5]\d)Z$/
const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|\+0000)$/

export interface Timestamp {
  /** Milliseconds since the epoch. */
  readonly atMs: number
  /** In the basic form. */
  readonly basic: string
}

/** Milliseconds since the epoch; null when the text is not in the basic form, or is before the epoch. */
export function parseBasic(text: string): number | null {
  if (text !== parsedLast) {
    parsedLast = text
    parsed = basicToMs(text)
  }
  return parsed
}

/** The text that was parsed last: requests that are signed in the same second, and those with the same URL, repeat it. */
let parsedLast = ''
let parsed: number | null = null

function basicToMs(text: string): number | null {
  const parts = BASIC.exec(text)
  if (parts === null) return null
  const month = Number(parts[2]) - 1
  const atMs = Date.UTC(Number(parts[1]), month, Number(parts[3]), Number(parts[4]), Number(parts[5]), Number(parts[6]))
  const isInMonth = new Date(atMs).getUTCMonth() === month // not the 31st of April
  return atMs >= 0 && isInMonth ? atMs : null
}

/** Parses either form; null as in `parseBasic`. */
export function parseTimestamp(text: string): Timestamp | null {
  if (!HTTP_DATE.test(text)) {
    const atMs = parseBasic(text)
    return atMs === null ? null : { atMs, basic: text }
  }
  const atMs = Date.parse(text)
  return atMs >= 0 ? { atMs, basic: formatBasic(atMs) } : null
}

const formatBasic = (atMs: number): string => new Date(atMs).toISOString().replaceAll(/[-:]|\.\d{3}/g, '')

/** As error documents have it: `2013-05-24T00:00:00Z`. */
export const formatExtended = (atMs: number): string => new Date(atMs).toISOString().replace(/\.\d{3}/, '')
