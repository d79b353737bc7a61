/** The media type of a Content-Type or Accept header's first entry: without parameters, lower case; '' when absent. */
export function mediaTypeOf(header: string): string {
  const end = header.search(/[;,]/)
  return (end < 0 ? header : header.slice(0, end)).trim().toLowerCase()
}
