/** Requests to the broker: as bytes for the run, and sent one by one before and after it. */
import { headersBeforeLength } from '../headers.ts'
import { connected } from '../connected.ts'
import type { Send } from '../connected.ts'
import type { Target } from '../http-connection.ts'
import type { HttpResponse } from '../http-response-parser.ts'
import { RefusedError } from '../workload.ts'
import type { LoadRequest } from '../workload.ts'
import { refusalKind } from './answers.ts'

export class Requests {
  readonly target: Target
  readonly #headersWithBody: string
  readonly #headersWithoutBody: string

  constructor(target: Target, authority: string) {
    this.target = target
    const headers = { host: authority, 'user-agent': 'trilog-load' }
    this.#headersWithoutBody = headersBeforeLength(headers)
    this.#headersWithBody = headersBeforeLength({ ...headers, 'content-type': 'application/json' })
  }

  /** A whole request. @param body JSON in ASCII; '' for none */
  build(method: string, path: string, body: string): LoadRequest {
    const headers = body === '' ? this.#headersWithoutBody : this.#headersWithBody
    const text = `${method} ${path} HTTP/1.1\r\n${headers}${body.length}\r\n\r\n${body}`
    return { head: Buffer.from(text, 'latin1'), body: null }
  }

  /** @throws ConnectionError, and what `use` throws */
  connected<T>(use: (send: Send) => Promise<T>): Promise<T> {
    return connected(this.target, use)
  }

  /**
   * @returns the members of the answer
   * @throws ConnectionError, RefusedError
   */
  get(path: string): Promise<Record<string, unknown>> {
    return this.connected(async (send) => {
      const response = await send(this.build('GET', path, ''))
      assertSuccess(response, `GET ${path}`)
      return JSON.parse(response.body.toString()) as Record<string, unknown> // an object, by the specification
    })
  }
}

/** @throws RefusedError */
export function assertSuccess(response: HttpResponse, what: string): void {
  if (response.status === 200 || response.status === 201) return
  throw new RefusedError(`${what} was answered with ${response.status} ${refusalKind(response)}`)
}
