/** Requests to the object store, in path style, as bytes. They are not signed: the server is in `local` mode. */
import { connected } from '../connected.ts'
import type { Send } from '../connected.ts'
import { headersBeforeLength } from '../headers.ts'
import type { Target } from '../http-connection.ts'
import type { HttpResponse } from '../http-response-parser.ts'
import { RefusedError } from '../workload.ts'
import type { LoadRequest } from '../workload.ts'
import { refusalKind } from './answers.ts'

export class Requests {
  readonly target: Target
  readonly #bucket: string
  readonly #headers: string

  /** @param bucket and all keys and queries are as they stand in a target */
  constructor(target: Target, authority: string, bucket: string) {
    this.target = target
    this.#bucket = bucket
    this.#headers = headersBeforeLength({ host: authority, 'user-agent': 'trilog-load' })
  }

  /** @param body goes out as it is, and must not change meanwhile */
  put(key: string, body: Buffer): LoadRequest {
    return this.#build('PUT', `/${key}`, body)
  }

  get(key: string): LoadRequest {
    return this.#build('GET', `/${key}`, null)
  }

  /** Bytes [from, to). */
  getRange(key: string, from: number, to: number): LoadRequest {
    return this.#build('GET', `/${key}`, null, `range: bytes=${from}-${to - 1}\r\n`)
  }

  head(key: string): LoadRequest {
    return this.#build('HEAD', `/${key}`, null)
  }

  delete(key: string): LoadRequest {
    return this.#build('DELETE', `/${key}`, null)
  }

  post(keyAndQuery: string, body: string): LoadRequest {
    return this.#build('POST', `/${keyAndQuery}`, body === '' ? null : Buffer.from(body))
  }

  createBucket(): LoadRequest {
    return this.#build('PUT', '', null)
  }

  /** A page of keys. @param token of the page before; null: the first one */
  list(prefix: string, keys: number, token: string | null): LoadRequest {
    const from = token === null ? '' : `&continuation-token=${encodeURIComponent(token)}`
    const query = `?list-type=2&max-keys=${keys}&prefix=${encodeURIComponent(prefix)}${from}`
    return this.#build('GET', query, null)
  }

  /** @throws ConnectionError, and what `use` throws */
  connected<T>(use: (send: Send) => Promise<T>): Promise<T> {
    return connected(this.target, use)
  }

  #build(method: string, rest: string, body: Buffer | null, header = ''): LoadRequest {
    const line = `${method} /${this.#bucket}${rest} HTTP/1.1\r\n`
    const length = body?.byteLength ?? 0
    return { head: Buffer.from(`${line}${header}${this.#headers}${length}\r\n\r\n`, 'latin1'), body }
  }
}

/** @throws RefusedError */
export function assertSuccess(response: HttpResponse, what: string): void {
  if (response.status >= 200 && response.status < 300) return
  throw new RefusedError(`${what} was answered with ${response.status} ${refusalKind(response)}`)
}
