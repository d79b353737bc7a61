/** What an operation decides about the current state, and which answer its caller gets. */
import type { ErrorKind } from '../errors.ts'
import type { FrameToAppend } from './appender.ts'

/** Is told once what became of an operation, when that may be told. Must not throw. */
export interface Answer<Reply> {
  answered(reply: Reply): void
  refused(error: unknown): void
}

/** A frame to append: a change, as it is written. It may be an instance of a class: a copy by `...` would lack its methods. */
export interface NewFrame<Change> extends FrameToAppend {
  /** What the payload says, if it takes long to decode. */
  readonly change?: Change
  /** The frame was taken and has its effect. */
  readonly onTaken?: (position: number) => void
  /** Is called in frame order, before any client is answered. */
  onStored?(): void
}

/** Where an operation waits until it is woken: in one of many queues under one number, as consumer groups of a stream are. */
export interface WaitingPlace {
  readonly number: number
  readonly queue: string
}

/**
 * An operation looks at the state and decides; it changes nothing itself. Nothing in it throws: what it refuses, and what the look-ups that it
 * makes refuse, are values. A promise refuses by rejecting.
 *
 *   an Error why the operation is refused, in the words of the service. Decided again when some of that state is lost
 *   reply    what the state says. Decided again like a refusal
 *   change   one frame. The reply is given when it is stored, or at once if the caller does not wait for that
 *   read     something has to be read first, or takes several turns: then the operation decides, on the state as it is then. When some of the
 *            state was lost meanwhile, it begins anew
 *   later    decided again when everything appended so far is stored
 *   wait     decided again when its place is woken, and for the last time when the time is over
 */
export type Decision<Reply, Change> =
  | Refused
  | Replying<Reply>
  | Changing<Reply, Change>
  | { readonly kind: 'read'; readonly read: () => Promise<() => Decision<Reply, Change>> }
  | { readonly kind: 'later' }
  | Waiting

/** What is not allowed, or failed. The kind of an error is never that of a decision. */
type Refused = Error & { readonly kind?: ErrorKind }

interface Replying<Reply> {
  readonly kind: 'reply'
  readonly reply: Reply
  /** The reply shows only what is stored in its class: it need not wait for what was appended meanwhile. */
  readonly isToldAtOnce?: boolean
}

interface Changing<Reply, Change> {
  readonly kind: 'change'
  /** Frames that this one builds on and that are not there yet, such as its group. They stay when this one is not taken. */
  readonly before?: readonly NewFrame<Change>[]
  readonly frame: NewFrame<Change>
  /** Called when the frame is stored, or at once. A promise: the caller waits for more than that, and is refused when it rejects. */
  readonly reply: () => Reply | Promise<Reply>
  /** The caller does not wait for the frame: it is told when the turn of the event loop in which the frame is taken ends. */
  readonly isToldAtOnce?: boolean
}

export interface Waiting {
  readonly kind: 'wait'
  readonly place: WaitingPlace
  readonly waitMs: number
  /** Ends the wait early when the listener is called: the caller is gone. */
  readonly onAbandoned: (listener: () => void) => void
  /** The operation takes anything: while there is nothing for it, there is nothing for those behind it in its queue. */
  readonly takesAny: boolean
}

export const LATER = { kind: 'later' } as const

/** Replies with what takes several turns to find. */
export const replyWhenFound = <Reply, Change>(find: () => Promise<Reply>): Decision<Reply, Change> => ({
  kind: 'read',
  async read() {
    const reply = await find()
    return () => replied(reply)
  },
})

export const replied = <Reply>(reply: Reply): Replying<Reply> => ({ kind: 'reply', reply })
