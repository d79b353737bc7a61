/** Who a request is of, once that is known. */
import type { ChunkSigning } from './chunk-signatures.ts'
import type { Principal } from './principal.ts'

export interface Caller {
  /** Null: anonymous, who may do what a bucket policy says. */
  readonly principal: Principal | null
  /** What the request says of its body in `x-amz-content-sha256`, in whichever place; null when nothing. */
  readonly contentSha256: string | null
  /** What the chunks of the body are signed with; null when there is nothing to check them against. */
  readonly chunkSigning: ChunkSigning | null
}

/** Either name of a header: ours wins. */
export const eitherHeader = (headers: ReadonlyMap<string, string>, name: string): string | undefined =>
  headers.get(`x-obj-${name}`) ?? headers.get(`x-amz-${name}`)
