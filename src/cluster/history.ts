/**
 * The one history that a stream tells: which of its messages count, and what the log is after them. Every node reads the same messages in the
 * same order by the same rules, so all come to the same log.
 *
 * H1  messages are taken in the order of their sequences, without a gap
 * H2  an epoch message counts when its epoch is higher than every one before. From then on only its writer's messages count
 * H3  of the writer's messages only the one with the next ordinal counts. The server compares nothing but a sequence number when it stores a message: a
 *     message in flight when another node began to lead may be stored behind that node's epoch message, and is void
 * H4  the parts of a frame count when the last one is there; a new epoch makes incomplete parts void
 * H5  a message that counts begins where the log ends. One that does not is a sign of damage: nothing is taken any more
 */
import { LOG_BEGIN, isSamePlace } from './message.ts'
import type { ClusterMessage, LogPlace } from './message.ts'

/** The history after a message that leaves no frame incomplete. It is stored in a file, and copied from other nodes. */
export interface Anchor {
  /** The message's sequence in the stream; 0: before the first message. */
  readonly sequence: number
  readonly epoch: number
  readonly writer: string
  readonly ordinal: number
  readonly end: LogPlace
  /** The writer resigned; see ClusterMessage. */
  readonly resigned: { readonly successor: string | null } | null
}

export const STREAM_BEGIN: Anchor = {
  sequence: 0,
  epoch: 0,
  writer: '',
  ordinal: 0,
  end: LOG_BEGIN,
  resigned: null,
}

export type Verdict<Body> =
  /** Frames that count: the bodies follow each other. */
  | { readonly kind: 'frames'; readonly bodies: readonly Body[]; readonly begin: LogPlace; readonly end: LogPlace }
  | { readonly kind: 'epoch' | 'beat' | 'resigned' | 'held' | 'void' }
  /** The message was taken before. */
  | { readonly kind: 'repeated' }
  /** H1: the one that comes next is `sequence + 1`. */
  | { readonly kind: 'gap' }
  /** H5 */
  | { readonly kind: 'mismatch'; readonly reason: string }

const VOID = { kind: 'void' } as const

export class StreamHistory<Body> {
  #sequence: number
  #epoch: number
  #writer: string
  #ordinal: number
  #end: LogPlace
  #resigned: Anchor['resigned']
  #parts: Body[] = []
  #anchor: Anchor

  constructor(anchor: Anchor) {
    this.#sequence = anchor.sequence
    this.#epoch = anchor.epoch
    this.#writer = anchor.writer
    this.#ordinal = anchor.ordinal
    this.#end = anchor.end
    this.#resigned = anchor.resigned
    this.#anchor = anchor
  }

  /** The sequence of the message that was taken last, whether it counted or not. */
  get sequence(): number {
    return this.#sequence
  }

  get epoch(): number {
    return this.#epoch
  }

  /** The writer that leads; empty: none has led yet. */
  get writer(): string {
    return this.#writer
  }

  get end(): LogPlace {
    return this.#end
  }

  get resigned(): Anchor['resigned'] {
    return this.#resigned
  }

  get anchor(): Anchor {
    return this.#anchor
  }

  apply(sequence: number, message: ClusterMessage<Body>): Verdict<Body> {
    if (sequence <= this.#sequence) return { kind: 'repeated' }
    if (sequence > this.#sequence + 1) return { kind: 'gap' }
    const verdict = this.#judge(message)
    if (verdict.kind === 'mismatch') return verdict
    this.#sequence = sequence
    if (this.#parts.length === 0) this.#anchor = this.#anchorNow()
    return verdict
  }

  #judge(message: ClusterMessage<Body>): Verdict<Body> {
    const { kind, epoch, writer, ordinal } = message
    if (kind === 'epoch') return this.#beginEpoch(message)
    const isOfLeader = epoch === this.#epoch && writer === this.#writer
    if (!isOfLeader || ordinal !== this.#ordinal + 1 || this.#resigned !== null) return VOID // H2, H3
    if (!isSamePlace(message.begin, this.#end)) return this.#mismatch(message)
    this.#ordinal = ordinal
    switch (kind) {
      case 'frames':
        return this.#moveTo(message, [message.body!])
      case 'part':
        return this.#addPart(message)
      case 'resign':
        this.#resigned = { successor: message.successor }
        return { kind: 'resigned' }
      default:
        return { kind: 'beat' }
    }
  }

  /** H2 */
  #beginEpoch(message: ClusterMessage<Body>): Verdict<Body> {
    if (message.epoch <= this.#epoch) return VOID
    if (!isSamePlace(message.begin, this.#end)) return this.#mismatch(message)
    this.#epoch = message.epoch
    this.#writer = message.writer
    this.#ordinal = message.ordinal
    this.#resigned = null
    this.#parts = [] // H4
    return { kind: 'epoch' }
  }

  /** H4 */
  #addPart(message: ClusterMessage<Body>): Verdict<Body> {
    const { index, count } = message.part!
    if (index !== this.#parts.length)
      return { kind: 'mismatch', reason: `part ${index} of a frame is not the next one` }
    this.#parts.push(message.body!)
    if (index + 1 < count) return { kind: 'held' }
    const bodies = this.#parts
    this.#parts = []
    return this.#moveTo(message, bodies)
  }

  #moveTo({ begin, end }: ClusterMessage<Body>, bodies: readonly Body[]): Verdict<Body> {
    this.#end = end
    return { kind: 'frames', bodies, begin, end }
  }

  /** H5 */
  #mismatch({ begin, epoch, writer }: ClusterMessage<Body>): Verdict<Body> {
    const { position, chain } = this.#end
    const reason = `epoch ${epoch} of ${writer} begins at position ${begin.position} (${begin.chain}), but the log ends at ${position} (${chain})`
    return { kind: 'mismatch', reason }
  }

  #anchorNow(): Anchor {
    return {
      sequence: this.#sequence,
      epoch: this.#epoch,
      writer: this.#writer,
      ordinal: this.#ordinal,
      end: this.#end,
      resigned: this.#resigned,
    }
  }
}
