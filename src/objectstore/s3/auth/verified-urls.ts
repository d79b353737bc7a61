/**
 * Pre-signed URLs whose signature was found good: a URL is signed once and often used many times.
 *
 * U1  a cache hit is only the very request that was verified: method, path, query, and the value of every header that is signed. Its signature is good
 *     again, as long as the credentials stay: a reload begins an empty cache. Whether the request is in time, and has no unsigned header that had to be
 *     signed, is checked for each request anew
 * U2  the cache is bounded in number and in length: an entry that was not used for GENERATION_MAX others makes room. There are two generations, as a Map
 *     that loses its first entry again and again looks for the next one behind all those that it lost
 * U3  what many URLs have in common, caller and signed headers, is kept once: memory that each request looks at stays in the processor's cache
 */
import type { SignedRequest } from './canonical-request.ts'
import type { Caller } from './request-identity.ts'

export interface VerifiedUrl {
  readonly caller: Caller
  readonly signedAtMs: number
  readonly expiresSeconds: number
  readonly signedHeaders: readonly string[]
}

interface Kept extends VerifiedUrl {
  readonly method: string
  readonly path: string
  readonly query: string
  /** Values of the signed headers. */
  readonly values: readonly string[]
}

const NO_URL: Pick<Kept, 'caller' | 'signedHeaders' | 'values'> = {
  caller: { principal: null, contentSha256: null, chunkSigning: null },
  signedHeaders: [],
  values: [],
}

/** U2: twice as many entries are kept, at about 1 KB each. */
const GENERATION_MAX = 20 * 1024
/** Longest path with query, and longest headers together, that are kept. */
const CHARACTERS_MAX = 1024
const SIGNATURE = 'X-Amz-Signature='
const SIGNATURE_CHARACTERS = 64
const PLACE_CHARACTERS = 7
const PLACE_MASK = 2 ** (4 * PLACE_CHARACTERS) - 1

export class VerifiedUrls {
  /** By the beginning of the signature, as a number, which is found sooner than a text. If two URLs have the same, the last one is kept. */
  #newer = new Map<number, Kept>()
  #older = new Map<number, Kept>()
  /** U3: the shared parts of the entry that was added last. */
  #usual = NO_URL

  find(request: SignedRequest): VerifiedUrl | null {
    const place = placeOf(request)
    let url = this.#newer.get(place)
    if (url === undefined) {
      url = this.#older.get(place)
      if (url !== undefined) this.#keep(place, url)
    }
    if (url === undefined || url.query !== request.query || url.path !== request.path) return null
    return url.method === request.method && hasSame(request, url) ? url : null
  }

  add(request: SignedRequest, url: VerifiedUrl): void {
    const { method, path, query } = request
    const names = url.signedHeaders.map((name) => name.toLowerCase())
    const ofHeaders = names.map((name) => valueOf(request, name))
    const characters = ofHeaders.reduce((sum, value) => sum + value.length, path.length + query.length)
    if (characters > CHARACTERS_MAX) return
    const usual = this.#usual
    const caller = isSameCaller(usual.caller, url.caller) ? usual.caller : url.caller
    const signedHeaders = isSameList(usual.signedHeaders, names) ? usual.signedHeaders : names
    const values = isSameList(usual.values, ofHeaders) ? usual.values : ofHeaders
    this.#usual = { caller, signedHeaders, values }
    this.#keep(placeOf(request), { ...url, ...this.#usual, method, path, query })
  }

  #keep(place: number, url: Kept): void {
    if (this.#newer.size >= GENERATION_MAX) {
      this.#older = this.#newer
      this.#newer = new Map()
    }
    this.#newer.set(place, url)
  }
}

/** 28 bits of the signature, if it is one. Most signers write it last. */
function placeOf({ query }: SignedRequest): number {
  const lastAt = query.length - SIGNATURE.length - SIGNATURE_CHARACTERS
  const at = SIGNATURE.length + (query.startsWith(SIGNATURE, lastAt) ? lastAt : query.indexOf(SIGNATURE))
  let place = 0
  for (let i = at; i < at + PLACE_CHARACTERS; i++) place = (place << 4) ^ hexDigit(query.charCodeAt(i))
  return place & PLACE_MASK
}

/** Value of a digit 0 to 9 or a to f; some number for any other character. */
const hexDigit = (code: number): number => (code & 0xf) + (code >>> 6) * 9

function hasSame(request: SignedRequest, { signedHeaders, values }: Kept): boolean {
  for (let i = 0; i < values.length; i++) if (valueOf(request, signedHeaders[i]!) !== values[i]) return false
  return true
}

/** @param name in lower case */
const valueOf = ({ headers }: SignedRequest, name: string): string => headers.get(name) ?? ''

const isSameCaller = (one: Caller, other: Caller): boolean =>
  one.principal === other.principal &&
  one.contentSha256 === other.contentSha256 &&
  one.chunkSigning === null &&
  other.chunkSigning === null

const isSameList = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((text, i) => text === other[i])
