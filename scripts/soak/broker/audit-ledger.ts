/**
 * What the audit stream must say, and what it says: one event for each act, and no other.
 *
 * E1  events stand at offsets without gaps, keep their ids, and ids rise with offsets
 * E2  what was answered has its event from then on; what was not answered has one or none, and none later than the next start
 * E3  a dead letter is one event, one end of a delivery, one copy: the copies of a stream are its events in their order
 */
import assert from 'node:assert/strict'
import type { Random } from '../../../bench/load/random.ts'
import type { AuditEvent } from '../../../src/broker/records/audit-event.ts'
import { BLOCK_OFFSETS, BlockDigests } from './block-digests.ts'
import type { Block } from './block-digests.ts'
import type { GroupLedger } from './group-ledger.ts'
import type { StreamLedger } from './stream-ledger.ts'

/** A copy that must stand in a stream of dead letters. */
export interface ExpectedCopy {
  readonly offset: number
  readonly source: StreamLedger
  readonly sourceOffset: number
  readonly reason: string
}

/** A dead letter, as its frames and its audit event describe it. */
interface DeadLetterDetail {
  readonly consumer_group: string
  readonly offset: number
  readonly attempt: number
  readonly cause: 'explicit' | 'policy' | 'expiry'
  readonly reason: string
  readonly dead_letter_stream: string
  readonly dead_letter_offset: number
}

/** Acts of one kind and key whose events were not seen: how many have no answer, and how many have one. */
interface Awaited {
  asked: number
  answered: number
}

/** Acts of keepers of lives, by the stream that their events name. */
const LIFE_KINDS = [
  'stream_created',
  'stream_updated',
  'stream_purged',
  'stream_deleted',
  'group_sought',
  'group_deleted',
  'cursor_deleted',
  'delivery_dead_lettered',
  'dead_letters_redriven',
] as const
export type LifeKind = (typeof LIFE_KINDS)[number]
type ActKind = LifeKind | 'cursor_rewound'

export class AuditLedger {
  /** Offset of the next event. */
  nextOffset = 0
  readonly counts: Record<string, number> = {}
  /** By target stream, in the order of their offsets; taken out once they were seen. */
  readonly copies = new Map<string, ExpectedCopy[]>()
  readonly #groupOf: (stream: string, group: string) => GroupLedger
  /** Acts that are awaited, by kind and what makes them unique. */
  readonly #acts = new Map<string, Awaited>()
  readonly #digests = new BlockDigests()
  #block: string[] = []
  #lastId = ''

  readonly #isLife: (stream: string) => boolean

  /** @param isLife whether the stream has a keeper, which does all that is done to it */
  constructor(groupOf: (stream: string, group: string) => GroupLedger, isLife: (stream: string) => boolean) {
    this.#groupOf = groupOf
    this.#isLife = isLife
  }

  /** E2 */
  asked(kind: ActKind, key: string): void {
    this.#awaited(kind, key).asked++
  }

  answered(kind: ActKind, key: string): void {
    const awaited = this.#awaited(kind, key)
    if (awaited.asked === 0) return // its event was seen before
    awaited.asked--
    awaited.answered++
  }

  refused(kind: ActKind, key: string): void {
    const awaited = this.#awaited(kind, key)
    awaited.asked = Math.max(0, awaited.asked - 1)
  }

  /** E1, E3. The next event. Returns where it says that a delivery ended. */
  event(event: AuditEvent): { readonly group: GroupLedger; readonly offset: number } | null {
    const { event_id: id, offset, kind, stream, detail } = event
    const where = `audit event ${offset}`
    assert.equal(offset, this.nextOffset, `${where} follows ${this.nextOffset - 1}`)
    assert(id > this.#lastId, `${where} is ${id}, the one before is ${this.#lastId}`)
    this.nextOffset++
    this.#lastId = id
    this.counts[kind] = (this.counts[kind] ?? 0) + 1
    this.#remember(event)
    if (this.#isLife(String(stream))) {
      const known = LIFE_KINDS.find((each) => each === kind)
      assert(known, `${where} is ${kind}, but no actor did that`)
      this.#happened(known, String(stream), where)
      return null
    }
    switch (kind) {
      case 'stream_created':
        this.#happened(kind, String(stream), where)
        return null
      case 'cursor_rewound':
        this.#happened(kind, String(detail['reason']), where)
        return null
      case 'delivery_stopped': {
        const { consumer_group, offset: of, attempt, reason } = detail as unknown as DeadLetterDetail // its first fields
        const group = this.#groupOf(String(stream), consumer_group)
        group.auditedEnd(of, attempt, 'stopped', reason === 'the lease expired')
        return { group, offset: of }
      }
      case 'delivery_dead_lettered': {
        const letter = detail as unknown as DeadLetterDetail // compared field by field
        const group = this.#groupOf(String(stream), letter.consumer_group)
        group.auditedEnd(letter.offset, letter.attempt, 'dead_lettered', letter.cause === 'expiry')
        this.#expectCopy(group.stream, letter)
        return { group, offset: letter.offset }
      }
      default:
        return assert.fail(`${where} is ${kind}, but no actor did that`)
    }
  }

  /** E2, when all events were read and no actor works. @param isFinal what was not answered until now did not happen */
  assertComplete(isFinal: boolean): void {
    const missing = [...this.#acts].filter(([, { answered }]) => answered > 0).map(([act]) => act)
    assert.deepEqual(missing, [], 'these requests were answered, but have no audit event')
    if (isFinal) this.#acts.clear()
  }

  oldBlock(random: Random): Block | null {
    return this.#digests.pick(random, 0)
  }

  #awaited(kind: string, key: string): Awaited {
    const act = `${kind} ${key}`
    const awaited = this.#acts.get(act) ?? { asked: 0, answered: 0 }
    this.#acts.set(act, awaited)
    return awaited
  }

  #happened(kind: string, key: string, where: string): void {
    const awaited = this.#awaited(kind, key)
    const { asked, answered } = awaited
    assert(asked + answered > 0, `${where} is ${kind} ${key}: no actor requested it, or it has a second event`)
    if (answered > 0) awaited.answered--
    else awaited.asked--
  }

  #expectCopy(source: StreamLedger, letter: DeadLetterDetail): void {
    const { offset: sourceOffset, dead_letter_stream: target, dead_letter_offset: offset, reason } = letter
    const copies = this.copies.get(target) ?? []
    this.copies.set(target, copies)
    copies.push({ offset, source, sourceOffset, reason })
  }

  #remember(event: AuditEvent): void {
    this.#block.push(JSON.stringify(event))
    if (this.#block.length < BLOCK_OFFSETS) return
    this.#digests.add(this.#block)
    this.#block = []
  }
}
