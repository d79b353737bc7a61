/**
 * What the audit stream must say, and what it says: one event for each act, none for what nobody did.
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

/** As both its frames and its audit event tell of it. */
interface DeadLetterDetail {
  readonly consumer_group: string
  readonly offset: number
  readonly attempt: number
  readonly cause: 'explicit' | 'policy' | 'expiry'
  readonly reason: string
  readonly dead_letter_stream: string
  readonly dead_letter_offset: number
}

type Asked = 'asked' | 'answered'

export class AuditLedger {
  /** Of the next event. */
  nextOffset = 0
  readonly counts: Record<string, number> = {}
  /** By target stream, in the order of their offsets; taken out once they were seen. */
  readonly copies = new Map<string, ExpectedCopy[]>()
  readonly #groupOf: (stream: string, group: string) => GroupLedger
  /** Acts that are awaited, by kind and what makes them unique. */
  readonly #acts = new Map<string, Asked>()
  readonly #digests = new BlockDigests()
  #block: string[] = []
  #lastId = ''

  constructor(groupOf: (stream: string, group: string) => GroupLedger) {
    this.#groupOf = groupOf
  }

  /** E2 */
  asked(kind: 'stream_created' | 'cursor_rewound', key: string): void {
    this.#acts.set(`${kind} ${key}`, 'asked')
  }

  answered(kind: 'stream_created' | 'cursor_rewound', key: string): void {
    const act = `${kind} ${key}`
    if (this.#acts.has(act)) this.#acts.set(act, 'answered')
  }

  refused(kind: 'stream_created' | 'cursor_rewound', key: string): void {
    this.#acts.delete(`${kind} ${key}`)
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
        return assert.fail(`${where} is ${kind}, and nobody did that`)
    }
  }

  /** E2, when all events were read and nobody is at work. @param isFinal what was not answered until now did not happen */
  assertComplete(isFinal: boolean): void {
    const missing = [...this.#acts].filter(([, asked]) => asked === 'answered').map(([act]) => act)
    assert.deepEqual(missing, [], 'these were answered and have no audit event')
    if (isFinal) this.#acts.clear()
  }

  oldBlock(random: Random): Block | null {
    return this.#digests.pick(random, 0)
  }

  #happened(kind: string, key: string, where: string): void {
    assert(this.#acts.delete(`${kind} ${key}`), `${where} is ${kind} ${key}: nobody asked for it, or it is there twice`)
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
