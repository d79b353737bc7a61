/**
 * The digests of one body: the plan of what to compute, and the result. Both are plain data, as the digests of a large body come from the thread that
 * has its bytes (incremental-digests.ts).
 */
import { hash } from 'node:crypto'
import type { ChecksumAlgorithm, ChecksumValue } from './checksums.ts'
import { beginChecksum, beginHash } from './checksum-algorithms.ts'
import type { Digest } from './checksum-algorithms.ts'

/** What to compute besides MD5, which every body has for its ETag. */
export interface DigestPlan {
  readonly checksums: readonly ChecksumAlgorithm[]
  readonly sha256: boolean
}

export interface BodyDigest {
  readonly bytes: number
  /** 32 lower-case digits. */
  readonly md5: string
  /** In the order of the plan. */
  readonly checksums: readonly ChecksumValue[]
  /** 64 lower-case digits; null when not planned. */
  readonly sha256: string | null
}

/** The digests of a body besides its MD5, computed as its bytes come. The plan's checksums must be loaded. */
export class RunningDigests {
  readonly #plan: DigestPlan
  /** One for each checksum of the plan. Null stands for MD5, which is computed in any case. */
  readonly #checksums: readonly (Digest | null)[]
  /** Null: it is not planned, or is one of the checksums. */
  readonly #sha256: Digest | null

  constructor(plan: DigestPlan) {
    const { checksums, sha256 } = plan
    this.#plan = plan
    this.#checksums = checksums.map((algorithm) => (algorithm === 'MD5' ? null : beginChecksum(algorithm)))
    this.#sha256 = sha256 && !checksums.includes('SHA256') ? beginHash('sha256') : null
  }

  update(bytes: Uint8Array): void {
    for (const checksum of this.#checksums) checksum?.update(bytes)
    this.#sha256?.update(bytes)
  }

  /**
   * Call it once.
   *
   * @param bytes length of the body
   * @param md5 32 lower-case digits
   */
  finish(bytes: number, md5: string): BodyDigest {
    const plan = this.#plan
    const checksums = plan.checksums.map((algorithm, i) => {
      const digest = this.#checksums[i]?.digest() ?? Buffer.from(md5, 'hex')
      return { algorithm, value: digest.toString('base64') }
    })
    const ofSha256 = this.#sha256?.digest().toString('hex') ?? null
    return { bytes, md5, checksums, sha256: plan.sha256 ? (ofSha256 ?? sha256Among(checksums)) : null }
  }
}

/**
 * The digests of a body that is in memory as a whole. The plan's checksums must be loaded.
 *
 * @param md5 32 lower-case digits; one call of node:crypto is the quickest for a body alone
 */
export function digestOfWhole(plan: DigestPlan, body: Uint8Array, md5 = hash('md5', body, 'hex')): BodyDigest {
  const running = new RunningDigests(plan)
  running.update(body)
  return running.finish(body.length, md5)
}

/** SHA-256 that is one of the checksums, too, is computed only once. */
function sha256Among(checksums: readonly ChecksumValue[]): string | null {
  const sha256 = checksums.find(({ algorithm }) => algorithm === 'SHA256')
  return sha256 === undefined ? null : Buffer.from(sha256.value, 'base64').toString('hex')
}
