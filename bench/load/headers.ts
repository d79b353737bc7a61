/** The headers of a request, up to the value of Content-Length: the rest is the length and two line ends. */
export function headersBeforeLength(headers: Readonly<Record<string, string>>): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${lines.join('')}content-length: `
}
