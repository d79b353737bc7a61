/** The identity of a request, once it is known. */
import type { ChunkSigning } from './chunk-signatures.ts'
import type { Principal } from './principal.ts'

export interface Caller {
  /** Null: an anonymous caller, which may do what a bucket policy allows. */
  readonly principal: Principal | null
  /** Value of `x-amz-content-sha256`, from the headers or the query; null when there is none. */
  readonly contentSha256: string | null
  /** What the chunks of the body are signed with; null when there is nothing to check them against. */
  readonly chunkSigning: ChunkSigning | null
}

/** Both names of a header, made once: each request asks for many. */
const names = new Map<string, readonly [ours: string, theirs: string]>()

let askedLast: ReadonlyMap<string, string> | null = null
let askedSize = -1
let hadOne = false

/** Whether any header has either prefix. Many requests have none, and each is asked many times in a row, so the last answer is kept. */
export function hasOwnHeaders(headers: ReadonlyMap<string, string>): boolean {
  if (headers === askedLast && headers.size === askedSize) return hadOne
  askedLast = headers
  askedSize = headers.size
  hadOne = false
  for (const name of headers.keys()) if (name.startsWith('x-obj-') || name.startsWith('x-amz-')) hadOne = true
  return hadOne
}

/** Either name of a header: ours wins. @param name one of ours, not one that a client chose */
export function eitherHeader(headers: ReadonlyMap<string, string>, name: string): string | undefined {
  if (!hasOwnHeaders(headers)) return undefined
  let both = names.get(name)
  if (both === undefined) names.set(name, (both = [`x-obj-${name}`, `x-amz-${name}`]))
  return headers.get(both[0]) ?? headers.get(both[1])
}
