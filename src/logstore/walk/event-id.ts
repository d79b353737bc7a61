/** The place where a tail continues, as clients keep it: `<log>-<position>-<record>` in hexadecimal. It outlives restarts and sealing. */
import type { LogPlace } from './tasks.ts'

export const eventId = (logId: number, { position, recordNumber }: LogPlace): string =>
  [logId, position, recordNumber].map((number) => number.toString(16)).join('-')

/** Null: the text is no id of an event. */
export function parseEventId(text: string): (LogPlace & { readonly logId: number }) | null {
  const [, logId, position, recordNumber] = /^([0-9a-f]{1,8})-([0-9a-f]{1,13})-([0-9a-f]{1,4})$/.exec(text) ?? []
  if (logId === undefined || position === undefined || recordNumber === undefined) return null
  return {
    logId: Number.parseInt(logId, 16),
    position: Number.parseInt(position, 16),
    recordNumber: Number.parseInt(recordNumber, 16),
  }
}
