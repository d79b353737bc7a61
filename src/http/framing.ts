/**
 * Where the body of a request ends, as its headers say.
 *
 * A proxy and this server must find the same end. Otherwise bytes that the proxy takes for a body are served here as the next request. The library
 * takes the first of several Content-Length headers and treats every Transfer-Encoding as chunked, so a request that could be read in two ways
 * is refused. A request with both headers never gets here: the library refuses it.
 *
 * F1  Content-Length is one decimal number
 * F2  Transfer-Encoding is `chunked`, once
 * F3  a chunked body announces no trailers, which the library cannot read
 */
const LENGTH = /^[0-9]{1,15}$/

/** Reads one request after the other. */
export class RequestFraming {
  /** -1: not declared (no body, or a chunked one). */
  declaredBytes = -1
  isChunked = false
  /** Why the request is refused; null: it is not. */
  problem: string | null = null
  #lengths = 0
  #codings = 0
  #announcesTrailers = false

  begin(): void {
    this.declaredBytes = -1
    this.isChunked = this.#announcesTrailers = false
    this.#lengths = this.#codings = 0
  }

  /** Takes each header, in their order. @param name in lower case */
  see(name: string, value: string): void {
    switch (name) {
      case 'content-length':
        this.#lengths += 1
        this.declaredBytes = LENGTH.test(value) ? Number(value) : NaN
        break
      case 'transfer-encoding':
        this.#codings += 1
        this.isChunked = value.toLowerCase() === 'chunked'
        break
      case 'trailer':
        this.#announcesTrailers = true
        break
      default:
    }
  }

  end(): void {
    this.problem = this.#problem()
  }

  #problem(): string | null {
    if (this.#lengths > 1 || Number.isNaN(this.declaredBytes)) return 'Content-Length must be one decimal number'
    if (this.#codings > 1 || (this.#codings === 1 && !this.isChunked)) return 'Transfer-Encoding must be chunked, once'
    if (this.isChunked && this.#announcesTrailers) return 'trailers are not supported: send headers instead'
    return null
  }
}
