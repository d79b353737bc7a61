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
  /** Good until the next answer of the connection begins: its memory is used again. */
  readonly body: Buffer
}

/** The peer sent something that is not an HTTP/1.1 answer we can read. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError'
}

const HEAD_BYTES_MAX = 64 * 1024
const BODY_BYTES_MAX = 16 * 1024 * 1024
const HEAD_END = Buffer.from('\r\n\r\n')
const NO_BYTES = Buffer.alloc(0)
const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d)(?=[ \r]|$)/
/** The headers that matter here: looking for them is several times cheaper than taking all lines apart. */
const HEADER = /\r\n(content-length|transfer-encoding|retry-after|content-type|connection):([^\r]*)/gi

type Head = Omit<HttpResponse, 'body'> & { readonly bodyBytes: number }

export class HttpResponseParser {
  /** Whether the next answer is one to HEAD: its length is that of a body which does not come. */
  isToHead = false
  #pending = NO_BYTES // bytes of an unfinished head
  #head: Head | null = null
  #memory = NO_BYTES // of bodies: pages of new memory would cost more than what comes in
  #bodyBytes = 0 // of the body, that have arrived

  /** True between the first byte of an answer and its last. */
  get insideResponse(): boolean {
    return this.#head !== null || this.#pending.byteLength > 0
  }

  /**
   * Takes the next bytes of the connection; keeps none of `chunk` afterwards.
   *
   * @returns the answer these bytes completed, else null
   * @throws ProtocolError also when bytes follow the end of an answer: no request asked for them
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
      const head = parseHead(bytes.toString('latin1', 0, headBytes), this.isToHead)
      this.#pending = NO_BYTES
      rest = bytes.subarray(headBytes + HEAD_END.byteLength)
      if (head.status >= 200) {
        this.#head = head
        if (this.#memory.byteLength < head.bodyBytes) this.#memory = Buffer.allocUnsafeSlow(head.bodyBytes)
      } else if (rest.byteLength === 0) return null
    }

    const missingBytes = this.#head.bodyBytes - this.#bodyBytes
    if (rest.byteLength > missingBytes) throw new ProtocolError('bytes after the end of a response')
    this.#memory.set(rest, this.#bodyBytes)
    this.#bodyBytes += rest.byteLength
    if (rest.byteLength < missingBytes) return null

    const { bodyBytes, ...head } = this.#head
    this.#head = null
    this.#bodyBytes = 0
    return { ...head, body: this.#memory.subarray(0, bodyBytes) }
  }
}

function parseHead(text: string, isToHead: boolean): Head {
  const match = STATUS_LINE.exec(text)
  if (match === null) throw new ProtocolError('not an HTTP/1.1 response')
  const status = Number(match[1])

  let bodyBytes = -1
  let retryAfterSeconds: number | null = null
  let contentType = ''
  let keepAlive = true
  HEADER.lastIndex = 0
  for (let header = HEADER.exec(text); header !== null; header = HEADER.exec(text)) {
    const value = header[2]!.trim()
    switch (header[1]!.toLowerCase()) {
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
  if (isToHead || status < 200 || status === 204 || status === 304) bodyBytes = 0
  if (bodyBytes < 0) throw new ProtocolError('response without Content-Length')
  if (bodyBytes > BODY_BYTES_MAX) throw new ProtocolError('response body is too large')
  return { status, retryAfterSeconds, contentType, keepAlive, bodyBytes }
}
