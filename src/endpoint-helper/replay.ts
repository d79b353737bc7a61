/**
 * What the frames of the log add up to.
 *
 *   …records…  BEGIN copies END  …records…  BEGIN copies ╳
 *              └── replaces everything before ──┘       └── never ended: counts for nothing
 *
 * Copies at the very beginning of the log count at once: what they were copied from was dropped, which happens only after
 * their COPY_END was stored, also when that is the frame that is damaged now.
 */
import type { FrameView } from '../log/read.ts'
import { COPY_BEGIN, FLAG_COPY, RECORD, decodeRecord } from './frames.ts'
import { RecentObjects } from './recent-objects.ts'
import type { RecentLimits } from './recent-objects.ts'

export class Replay {
  /** What is live after the frames so far. */
  recent: RecentObjects
  /** Where the last whole copy begins: nothing before it is needed. 0: there is none. */
  copyFrom = 0

  readonly #limits: RecentLimits
  #copies: RecentObjects | null = null
  #copiesFrom = 0
  #isFirst = true

  constructor(limits: RecentLimits) {
    this.#limits = limits
    this.recent = new RecentObjects(limits)
  }

  visit({ type, flags, position, payload }: Pick<FrameView, 'type' | 'flags' | 'position' | 'payload'>): void {
    const isCopy = (flags & FLAG_COPY) !== 0
    if (this.#isFirst && (type === COPY_BEGIN || isCopy)) this.#copies = this.recent
    else if (type === COPY_BEGIN) {
      this.#copies = new RecentObjects(this.#limits)
      this.#copiesFrom = position
    }
    this.#isFirst = false
    if (type === RECORD) (isCopy ? this.#copies : this.recent)?.add(decodeRecord(payload))
    else if (type !== COPY_BEGIN) this.#end()
  }

  /** COPY_END. */
  #end(): void {
    if (this.#copies === null) return
    this.recent = this.#copies
    this.copyFrom = this.#copiesFrom
    this.#copies = null
  }
}
