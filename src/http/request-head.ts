/**
 * The head of a request over uWebSockets.js.
 *
 * The headers are copied once, before any look-up: every further question to the library is a call out of JavaScript, and most look-ups are for
 * absent headers.
 *
 * H2  `header` returns what the library's getHeader does, `headers` what its forEach does: text beyond ASCII is Latin-1 in the first and UTF-8 in the second
 * H3  nothing is answered after `close` (E3 of exchange.ts)
 */
import assert from 'node:assert/strict'
import type { RequestHead } from './exchange.ts'
import { RequestFraming } from './framing.ts'
import type { Method } from './routes.ts'
import type { UwsRequest } from './uws.ts'

/** The library turns bytes that are not UTF-8 into this character. A client that means the character itself sends it in percent-encoding. */
const NOT_UTF8 = '\ufffd'

// oxlint-disable-next-line no-control-regex -- ASCII begins with them
const ASCII = /^[\0-\x7f]*$/

/** One per server, pointed at each request in turn. */
export class UwsRequestHead implements RequestHead {
  readonly framing = new RequestFraming()
  #request: UwsRequest | null = null
  #count = 0
  readonly #names: string[] = []
  readonly #values: string[] = []
  #method = ''
  /** The first parameter, as most routes ask for it more than once; undefined: not asked for yet. */
  #first: string | null | undefined

  readonly #visit = (name: string, value: string): void => {
    this.#names[this.#count] = name
    this.#values[this.#count] = value
    this.#count += 1
    this.framing.see(name, value)
  }

  /** @param method that the route takes; null: it takes several */
  open(request: UwsRequest, method: Method | null): void {
    this.#request = request
    this.#method = method ?? request.getMethod().toUpperCase()
    this.#first = undefined
    this.#count = 0
    this.framing.begin()
    request.forEach(this.#visit)
    this.framing.end()
  }

  close(): void {
    this.#request = null
  }

  get contentLength(): number {
    return this.framing.declaredBytes
  }

  get method(): string {
    assert(this.#alive)
    return this.#method
  }

  get path(): string {
    return this.#alive.getUrl()
  }

  get query(): string {
    return this.#alive.getQuery() ?? ''
  }

  param(index: number): string | null {
    if (index > 0) return this.#param(index)
    if (this.#first === undefined) this.#first = this.#param(0)
    return this.#first
  }

  #param(index: number): string | null {
    const raw = this.#alive.getParameter(index)
    if (raw.includes(NOT_UTF8)) return null
    if (!raw.includes('%')) return raw
    try {
      return decodeURIComponent(raw)
    } catch {
      return null
    }
  }

  header(name: string): string {
    const request = this.#alive
    for (let i = 0; i < this.#count; i++) {
      if (this.#names[i] !== name) continue
      const value = this.#values[i]!
      return ASCII.test(value) ? value : request.getHeader(name) // H2
    }
    return ''
  }

  headers(): Map<string, string> {
    assert(this.#alive)
    const headers = new Map<string, string>()
    for (let i = 0; i < this.#count; i++) {
      const name = this.#names[i]!
      const before = headers.get(name)
      const value = this.#values[i]!
      headers.set(name, before === undefined ? value : `${before},${value}`)
    }
    return headers
  }

  /** H3 */
  get #alive(): UwsRequest {
    assert(this.#request !== null, 'a request head is valid only during begin()')
    return this.#request
  }
}
