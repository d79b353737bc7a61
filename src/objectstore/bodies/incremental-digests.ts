/**
 * The digests of bodies, computed as their bytes come. Only digest lanes load this file: the MD5 of many messages at a time takes longer to compile than
 * all else that main loads for digests.
 */
import { Md5Hasher, Md5Message } from '../../../native-free-codecs/md5.ts'
import { RunningDigests } from './body-digests.ts'
import type { BodyDigest, DigestPlan } from './body-digests.ts'

/** The next bytes of a body. */
export interface BodyPiece {
  readonly digests: BodyDigests
  /** May be over a SharedArrayBuffer, and must not change meanwhile. */
  readonly bytes: Uint8Array
}

const md5 = new Md5Hasher()

export class BodyDigests {
  /** @param pieces of different bodies, MD5_LANES at most, which together take less time than one after the other */
  static update(pieces: readonly BodyPiece[]): void {
    md5.update(pieces.map(({ digests, bytes }) => ({ message: digests.#md5, bytes })))
    for (const { digests, bytes } of pieces) digests.#others.update(bytes)
  }

  readonly #md5 = new Md5Message()
  readonly #others: RunningDigests

  /** The plan's checksums must be loaded. */
  constructor(plan: DigestPlan) {
    this.#others = new RunningDigests(plan)
  }

  /** @param bytes may be over a SharedArrayBuffer, and must not change meanwhile */
  update(bytes: Uint8Array): void {
    BodyDigests.update([{ digests: this, bytes }])
  }

  /** Call it once. */
  finish(): BodyDigest {
    return this.#others.finish(this.#md5.bytes, md5.digests([this.#md5])[0]!.toString('hex'))
  }
}
