/**
 * Incremental parser for the answers of one HTTP/1.1 connection without pipelining: a head, then Content-Length bytes.
 *
 * What it does not support (a chunked body, a body that ends with the connection) is refused with a ProtocolError, never
 * misread. Interim answers (100 Continue) are skipped.
 */
export interface HttpResponse {
  readonly status: number
  /** Seconds, from Retry-After; null when absent or given as a date. */
  readonly retryAfterSeconds: number | null
  readonly contentType: string
  /** False: the server closes the connection after this answer. */
  readonly keepAlive: boolean
  readonly body: Buffer
}

/** The peer sent something that is not an HTTP/1.1 answer we can read. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError'
}

const HEAD_BYTES_MAX = 64 * 1024
const BODY_BYTES_MAX = 16 * 1024 * 1024
const HEAD_END = Buffer.from('\r\n\r\n')

type Head = Omit<HttpResponse, 'body'> & { readonly bodyBytes: number }

export class HttpResponseParser {
  #pending = Buffer.alloc(0) // bytes of an unfinished head
  #head: Head | null = null
  #bodyParts: Buffer[] = []
  #bodyBytes = 0

  /** True between the first byte of an answer and its last. */
  get insideResponse(): boolean {
    return this.#head !== null || this.#pending.byteLength > 0
  }

  /**
   * Takes the next bytes of the connection; keeps none of `chunk` afterwards.
   *
   * @returns the answer these bytes completed, else null
   * @throws ProtocolError also when bytes follow the end of an answer: nobody asked for them
   */
  push(chunk: Buffer): HttpResponse | null {
    let rest = chunk
    while (this.#head === null) {
      const bytes = this.#pending.byteLength > 0 ? Buffer.concat([this.#pending, rest]) : rest
      const headBytes = bytes.indexOf(HEAD_END)
      if (headBytes < 0) {
        if (bytes.byteLength > HEAD_BYTES_MAX) throw new ProtocolError('response head is too large')
        this.#pending = Buffer.from(bytes)
        return null
      }
      const head = parseHead(bytes.toString('latin1', 0, headBytes))
      this.#pending = Buffer.alloc(0)
      rest = bytes.subarray(headBytes + HEAD_END.byteLength)
      if (head.status >= 200) this.#head = head
      else if (rest.byteLength === 0) return null
    }

    const missingBytes = this.#head.bodyBytes - this.#bodyBytes
    if (rest.byteLength > missingBytes) throw new ProtocolError('bytes after the end of a response')
    if (rest.byteLength > 0) this.#bodyParts.push(Buffer.from(rest))
    this.#bodyBytes += rest.byteLength
    if (rest.byteLength < missingBytes) return null

    const [only, ...more] = this.#bodyParts
    const body = only === undefined || more.length > 0 ? Buffer.concat(this.#bodyParts) : only
    const { status, retryAfterSeconds, contentType, keepAlive } = this.#head
    this.#head = null
    this.#bodyParts = []
    this.#bodyBytes = 0
    return { status, retryAfterSeconds, contentType, keepAlive, body }
  }
}

function parseHead(text: string): Head {
  const [statusLine = '', ...lines] = text.split('\r\n')
  const match = /^HTTP\/1\.1 ([1-5]\d\d)(?: |$)/.exec(statusLine)
  if (match === null) throw new ProtocolError('not an HTTP/1.1 response')
  const status = Number(match[1])

  let bodyBytes = -1
  let retryAfterSeconds: number | null = null
  let contentType = ''
  let keepAlive = true
  for (const line of lines) {
    const colon = line.indexOf(':')
    const value = line.slice(colon + 1).trim()
    switch (line.slice(0, colon).toLowerCase()) {
      case 'content-length':
        if (!/^\d{1,15}$/.test(value)) throw new ProtocolError('bad Content-Length')
        bodyBytes = Number(value)
        break
      case 'transfer-encoding':
        throw new ProtocolError('Transfer-Encoding is not supported, the response needs a Content-Length')
      case 'retry-after':
        if (/^\d{1,9}$/.test(value)) retryAfterSeconds = Number(value)
        break
      case 'content-type':
        contentType = value.toLowerCase()
        break
      case 'connection':
        keepAlive = !/\bclose\b/i.test(value)
        break
      default:
    }
  }
  if (status < 200 || status === 204 || status === 304) bodyBytes = 0
  if (bodyBytes < 0) throw new ProtocolError('response without Content-Length')
  if (bodyBytes > BODY_BYTES_MAX) throw new ProtocolError('response body is too large')
  return { status, retryAfterSeconds, contentType, keepAlive, bodyBytes }
}
