/** Digests of bodies that are in memory as a whole. Those of one turn of the event loop are computed together: MD5 of eight takes as long as that of two. */
import { MD5_LANES, Md5Hasher } from '../../../native-free-codecs/md5.ts'
import { loadChecksums } from './checksum-algorithms.ts'
import { digestOfWhole } from './body-digests.ts'
import type { BodyDigest, DigestPlan } from './body-digests.ts'

interface Waiting {
  readonly plan: DigestPlan
  readonly body: Uint8Array
  readonly done: (digest: BodyDigest) => void
}

/** Fewer are quicker one by one. */
const TOGETHER_MIN = 4

export class WholeDigests {
  readonly #defer: (run: () => void) => void
  #waiting: Waiting[] = []
  /** Made when it is first of use, as that compiles it, which takes 20 ms. */
  #md5: Md5Hasher | null = null

  /** @param defer calls `run` once, after what is under way in this turn of the event loop */
  constructor(defer: (run: () => void) => void) {
    this.#defer = defer
  }

  /**
   * @param body does not change meanwhile
   * @param failed called when the plan's checksums could not be loaded
   */
  of(plan: DigestPlan, body: Uint8Array, done: (digest: BodyDigest) => void, failed: (error: unknown) => void): void {
    const loading = loadChecksums(plan.checksums)
    if (loading === null) this.#take({ plan, body, done })
    else loading.then(() => this.#take({ plan, body, done }), failed)
  }

  #take(waiting: Waiting): void {
    if (this.#waiting.push(waiting) === 1) this.#defer(() => this.#run())
  }

  #run(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (let i = 0; i < waiting.length; i += MD5_LANES) {
      const group = waiting.slice(i, i + MD5_LANES)
      const md5s = group.length < TOGETHER_MIN ? [] : this.#md5Of(group)
      for (const [k, { plan, body, done }] of group.entries()) done(digestOfWhole(plan, body, md5s[k]))
    }
  }

  #md5Of(group: readonly Waiting[]): readonly string[] {
    this.#md5 ??= new Md5Hasher()
    return this.#md5.ofWhole(group.map(({ body }) => body))
  }
}
