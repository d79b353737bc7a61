/** Status lines, as `writeStatus` wants them. */

// An import would run the getters of all exports of the module, and one of them loads a client for HTTP.
const { STATUS_CODES } = process.getBuiltinModule('node:http')

const lines: string[] = []

export function statusLine(status: number): string {
  return (lines[status] ??= `${status} ${STATUS_CODES[status] ?? 'Status'}`)
}
