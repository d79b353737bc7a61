/**
 * The body of a request that has a form, as it comes: without its aws-chunked framing, and checked against what the headers claim about it. The headers
 * are about the whole body; fields of the form are about its file (post-object.ts).
 */
import { RunningDigests } from '../../bodies/body-digests.ts'
import type { DigestPlan } from '../../bodies/body-digests.ts'
import { beginHash, loadChecksums } from '../../bodies/checksum-algorithms.ts'
import type { Digest } from '../../bodies/checksum-algorithms.ts'
import { AwsChunkedDecoder } from '../body/aws-chunked.ts'
import { checkBody, digestPlan } from '../body/body-claims.ts'
import { planBody } from '../body/body-plan.ts'
import type { BodyPlan } from '../body/body-plan.ts'
import { declaredChecksum } from '../body/declared-checksum.ts'
import type { GatewayRequest } from '../handler.ts'

export class FormBody {
  /** Without the framing; null: not declared. */
  readonly contentLength: number | null
  readonly #plan: BodyPlan
  readonly #decoder: AwsChunkedDecoder | null
  readonly #sink: (bytes: Buffer) => void
  /** Null: the headers claim nothing, as those of a browser. */
  readonly #digests: { readonly md5: Digest; readonly others: RunningDigests } | null
  #bytes = 0

  /**
   * @param sink gets the form; the bytes are valid during the call
   * @throws S3Error when the headers cannot be true of any body
   */
  static async open({ headers, caller, body }: GatewayRequest, sink: (bytes: Buffer) => void): Promise<FormBody> {
    const plan = planBody(headers, caller, body.contentLength, declaredChecksum(headers))
    const digests = digestPlan(plan.claims, [])
    await loadChecksums(digests.checksums)
    return new FormBody(plan, digests, sink)
  }

  private constructor(plan: BodyPlan, digests: DigestPlan, sink: (bytes: Buffer) => void) {
    const { contentMd5, sha256, checksum } = plan.claims
    const isClaimed = contentMd5 !== null || sha256 !== null || checksum !== null
    this.contentLength = plan.contentLength
    this.#plan = plan
    this.#sink = sink
    this.#digests = isClaimed ? { md5: beginHash('md5'), others: new RunningDigests(digests) } : null
    this.#decoder = plan.framing === null ? null : new AwsChunkedDecoder(plan.framing, (bytes) => this.#take(bytes))
  }

  /** @throws S3Error of the framing, and what the sink throws; nothing may be pushed after that */
  push(bytes: Uint8Array): void {
    if (this.#decoder === null) this.#take(bytes)
    else this.#decoder.push(bytes)
  }

  /** To be called when the body has ended. @throws S3Error when it is not what the headers claim */
  end(): void {
    const trailer = this.#decoder?.finish() ?? null
    if (this.#digests === null) return
    const { md5, others } = this.#digests
    checkBody(this.#plan.claims, others.finish(this.#bytes, md5.digest().toString('hex')), trailer)
  }

  #take(bytes: Uint8Array): void {
    this.#bytes += bytes.byteLength
    this.#digests?.md5.update(bytes)
    this.#digests?.others.update(bytes)
    this.#sink(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  }
}
