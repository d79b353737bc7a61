/** Status lines, as `writeStatus` wants them. */
import { STATUS_CODES } from 'node:http'

const lines: string[] = []

export function statusLine(status: number): string {
  return (lines[status] ??= `${status} ${STATUS_CODES[status] ?? 'Status'}`)
}
