/**
 * How a request becomes an answer, for every service that keeps its state in a log: judge, append, apply, answer.
 *
 * An operation judges the state as it is after everything appended so far, and decides (decision.ts). The frame of a change has its effect
 * at once, so the next operation builds on it without waiting; if the frame is lost, so is everything built on it.
 *
 * E1  a change has its effect exactly when its frame was taken, by `Machine.apply`, which reads the frame at a start too
 * E2  nothing is told before it is stored: replies and refusals stand in one queue, each behind all frames that were appended before it,
 *     its own included. A decision that may be told at once says so
 * E3  after frames were lost, the state is read from the log into a new object. An operation whose frame was lost is refused; an operation
 *     without a frame decides again
 * E4  an operation is answered once
 * E5  a service may bound the bytes under way. An operation beyond the bound decides again when there is room (room.ts). Without a bound the
 *     ring refuses
 * E6  in a cluster an operation is answered only while this node is sure to lead, whatever it decided. Otherwise it is refused with what
 *     `notStored` makes of NotLeading
 */
import { frameBytes } from '../../native-free-codecs/frame.ts'
import { asError } from '../errors.ts'
import { FrameLost, FrameNotTaken } from './appender.ts'
import type { Appender, Waiter } from './appender.ts'
import type { Log } from '../log/log.ts'
import type { BeginSpan } from '../spans.ts'
import { LATER } from './decision.ts'
import type { Answer, Decision, NewFrame, Waiting } from './decision.ts'
import { Parked } from './parked.ts'
import type { Parkable, ParkedOptions } from './parked.ts'
import { Room } from './room.ts'
import type { Entrant } from './room.ts'

/** Where a frame is. */
export interface FramePlace {
  readonly position: number
  readonly segmentBase: number
  /** Byte offset in the segment. */
  readonly place: number
  /** Its length, which counts for what it brings to the log; 0 when it counts already. */
  readonly frameBytes: number
}

export interface AppendedFrame<Change> {
  readonly type: number
  /** The payload without its external part. */
  readonly payload: Buffer
  /** What the payload says, if that is at hand. */
  readonly change?: Change | undefined
}

/** The rules of a service: the one place where a change has an effect (E1). */
export interface Machine<State, Change> {
  apply(state: State, frame: AppendedFrame<Change>, at: FramePlace): void
}

/** `first`; `again` after something was waited for; `last`: there is nothing left to wait for. */
export type Turn = 'first' | 'again' | 'last'

type Decide<Reply, Change> = (turn: Turn) => Decision<Reply, Change>

/** This node does not lead its cluster, or is not sure to: another one answers. */
export class NotLeading extends Error {
  /** Where clients reach the leader; null: that is not known. */
  readonly leader: string | null
  /** False: nothing was changed. True: a change was made, but the client cannot be told that it is stored. */
  readonly hasChanged: boolean

  constructor({ cluster }: Pick<Log, 'cluster'>, hasChanged = false) {
    super('this node does not lead its cluster, or its lease has expired')
    this.leader = cluster?.leader ?? null
    this.hasChanged = hasChanged
  }
}

/** The error that the caller gets when the log did not take the frame, or lost it: a FrameNotTaken, FrameLost or NotLeading in the words of the service. */
export type NotStored = (cause: Error) => Error

export interface EngineParts<State, Change> extends ParkedOptions {
  readonly log: Log
  readonly appender: Appender
  readonly machine: Machine<State, Change>
  /** E5. Infinity: no operation waits for room. */
  readonly inFlightBytesMax: number
  /** Calls once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
  /** Measures how long frames take to be stored. Absent or null: not measured. */
  readonly beginSpan?: BeginSpan | null
}

export class Engine<State, Change> {
  readonly log: Log
  readonly appender: Appender
  readonly parked: Parked
  readonly #machine: Machine<State, Change>
  readonly #room: Room | null
  readonly #defer: (run: () => void) => void
  readonly #beginSpan: BeginSpan | null
  #state: State
  /** Waiters that are told when the turn ends. */
  #soon: Tellable[] = []

  constructor(parts: EngineParts<State, Change>, state: State) {
    this.log = parts.log
    this.appender = parts.appender
    this.parked = new Parked(parts)
    this.#machine = parts.machine
    this.#room = parts.inFlightBytesMax === Infinity ? null : new Room(parts.inFlightBytesMax)
    this.#defer = parts.defer
    this.#beginSpan = parts.beginSpan ?? null
    this.#state = state
  }

  get state(): State {
    return this.#state
  }

  /** E3 */
  replaceState(state: State): void {
    this.#state = state
  }

  /** Appends and applies a frame of the cluster's leader. @returns its length; 0: the log has no room for it now */
  applyCopy(bytes: Buffer, at: number): number {
    const { appender } = this
    const taken = appender.appendCopy(bytes, at)
    if (taken === 0) return 0
    const { position, segmentBase, place, payload, copied } = appender
    this.#machine.apply(
      this.#state,
      { type: copied.type, payload },
      { position, segmentBase, place, frameBytes: taken },
    )
    return taken
  }

  /** Decides, and tells `answer` what came of it (E2, E4). */
  run<Reply>(decide: Decide<Reply, Change>, answer: Answer<Reply>, notStored: NotStored): void {
    new Run(this, decide, answer, notStored).decide('first')
  }

  /** As `run`, with a promise of the answer. */
  ask<Reply>(decide: Decide<Reply, Change>, notStored: NotStored): Promise<Reply> {
    return new Promise((answered, refused) => this.run(decide, { answered, refused }, notStored))
  }

  /** Tells operations that do not wait for their frames together: answers that go out one after the other cost main a quarter less time each. */
  tellTogether(told: Tellable): void {
    if (this.#soon.push(told) > 1) return
    this.#defer(() => {
      const soon = this.#soon
      this.#soon = []
      for (const each of soon) each.tell()
    })
  }

  /** E5. False: the entrant is told to decide again when there is room. */
  hasRoom(entrant: Entrant, payloadBytes: number): boolean {
    return this.#room === null || this.#room.admitOrQueue(entrant, payloadBytes)
  }

  /** E1. @returns why the frame was not taken: nothing has changed then, and `waiter` is not told */
  append(frame: NewFrame<Change>, waiter: Waiter): FrameNotTaken | null {
    const { appender } = this
    const room = this.#room
    const { type, payloadBytes, change, external } = frame
    const waiting = this.#beginSpan === null || waiter === NO_WAITER ? waiter : untilStored(waiter, this.#beginSpan)
    const told = frame.onStored === undefined && room === null ? waiting : new FrameWithListener(frame, waiting, room)
    const notTaken = appender.append(frame, told)
    if (notTaken !== null) return notTaken
    room?.taken(payloadBytes)
    const { position, segmentBase, place, payload } = appender
    const wholeBytes = frameBytes(payloadBytes + (external?.bytes ?? 0))
    this.#machine.apply(
      this.#state,
      { type, payload, change },
      { position, segmentBase, place, frameBytes: wholeBytes },
    )
    frame.onTaken?.(position)
    return null
  }

  /** Appends frames without a waiter: operations that build on them learn if they are lost. @returns why one was not taken; those behind it are not, either */
  appendSilently(frames: readonly NewFrame<Change>[]): FrameNotTaken | null {
    for (const frame of frames) {
      const notTaken = this.append(frame, NO_WAITER)
      if (notTaken !== null) return notTaken
    }
    return null
  }

  /** Appends a frame as a step of longer work. Resolves when it is stored. Rejects with what `notStored` makes of the cause when it is not taken, or lost. */
  store(frame: NewFrame<Change>, notStored: NotStored): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const settled = (stored: boolean): void => {
      if (stored) resolve()
      else reject(notStored(new FrameLost()))
    }
    const notTaken = this.append(frame, { settled })
    if (notTaken !== null) reject(notStored(notTaken))
    return promise
  }
}

function untilStored(waiter: Waiter, beginSpan: BeginSpan): Waiter {
  const end = beginSpan('commit')
  return {
    settled(stored) {
      end()
      waiter.settled(stored)
    },
  }
}

interface Tellable {
  tell(): void
}

/** A frame that has a listener besides its waiter. */
class FrameWithListener<Change> implements Waiter {
  readonly #frame: NewFrame<Change>
  readonly #waiter: Waiter
  readonly #room: Room | null

  constructor(frame: NewFrame<Change>, waiter: Waiter, room: Room | null) {
    this.#frame = frame
    this.#waiter = waiter
    this.#room = room
  }

  settled(stored: boolean): void {
    this.#room?.release(this.#frame.payloadBytes)
    if (stored) this.#frame.onStored?.()
    this.#waiter.settled(stored)
    this.#room?.admitWaiting()
  }
}

/** One operation, from its first decision to its answer. */
class Run<Reply, State, Change> implements Waiter, Parkable, Entrant, Tellable {
  readonly #engine: Engine<State, Change>
  readonly #decide: Decide<Reply, Change>
  readonly #answer: Answer<Reply>
  readonly #notStored: NotStored
  #decision: Decision<Reply, Change> = LATER
  /** The state on which the decision was made. */
  #state: State

  constructor(
    engine: Engine<State, Change>,
    decide: Decide<Reply, Change>,
    answer: Answer<Reply>,
    notStored: NotStored,
  ) {
    this.#engine = engine
    this.#decide = decide
    this.#answer = answer
    this.#notStored = notStored
    this.#state = engine.state
  }

  decide(turn: Turn): void {
    this.#judge(turn)
    this.#perform()
  }

  /** Decides again for a waiting operation. @returns what it still waits for; null: nothing */
  decideAgain(leave: () => void): Waiting | null {
    this.#judge('again')
    if (this.#decision.kind === 'wait') return this.#decision
    leave()
    this.#perform()
    return null
  }

  /** E2, E3 */
  settled(stored: boolean): void {
    const decision = this.#decision
    if (decision.kind === 'later') return this.decide('again')
    if (stored) return this.tell()
    const isLost = decision.kind === 'change' || this.#engine.state === this.#state
    if (isLost) this.#refuse(new FrameLost())
    else this.decide('again')
  }

  #judge(turn: Turn): void {
    this.#state = this.#engine.state
    const { log } = this.#engine
    try {
      this.#decision = log.mayAnswer ? this.#decide(turn) : new NotLeading(log)
    } catch (error) {
      this.#decision = asError(error) // our own bug
    }
  }

  #perform(): void {
    const decision = this.#decision
    switch (decision.kind) {
      case 'change':
        return this.#change(decision)
      case 'read':
        return void this.#read(decision.read)
      case 'wait':
        return this.#engine.parked.park(decision, this)
      case 'reply':
        if (decision.isToldAtOnce) return this.tell()
        return this.#engine.appender.tellWhenStored(this)
      default:
        this.#engine.appender.tellWhenStored(this)
    }
  }

  #change(decision: Extract<Decision<Reply, Change>, { readonly kind: 'change' }>): void {
    const { before = NOTHING, frame, isToldAtOnce = false } = decision
    const engine = this.#engine
    let bytes = frame.payloadBytes
    for (const { payloadBytes } of before) bytes += payloadBytes
    if (!engine.hasRoom(this, bytes)) return
    const notTaken = engine.appendSilently(before) ?? engine.append(frame, isToldAtOnce ? NO_WAITER : this)
    if (notTaken !== null) {
      this.#decision = notTaken
      engine.appender.tellWhenStored(this)
    } else if (isToldAtOnce) engine.tellTogether(this)
  }

  /** E3. Nothing else happens between the end of the read and the decision, nor between the decision and its frame. */
  async #read(read: () => Promise<() => Decision<Reply, Change>>): Promise<void> {
    try {
      const decide = await read()
      if (this.#engine.state !== this.#state) return this.decide('again')
      this.#decision = decide()
    } catch (error) {
      if (this.#engine.state !== this.#state) return this.decide('again')
      this.#decision = asError(error)
    }
    this.#perform()
  }

  tell(): void {
    const decision = this.#decision
    const { log } = this.#engine
    if (!log.mayAnswer) this.#refuse(new NotLeading(log, decision.kind === 'change')) // E6
    else if (decision.kind === 'change') this.#reply(decision.reply())
    else if (decision.kind === 'reply') this.#answer.answered(decision.reply)
    else if (decision instanceof Error) this.#refuse(decision)
  }

  /** The change is stored: frames that are lost from here on are not its own. */
  #reply(reply: Reply | Promise<Reply>): void {
    if (!(reply instanceof Promise)) return this.#answer.answered(reply)
    const { log } = this.#engine
    reply.then(
      (awaited) => (log.mayAnswer ? this.#answer.answered(awaited) : this.#refuse(new NotLeading(log, true))), // E6
      (error: unknown) => this.#refuse(asError(error)),
    )
  }

  #refuse(error: Error): void {
    const isOfFrame = error instanceof FrameNotTaken || error instanceof FrameLost || error instanceof NotLeading
    this.#answer.refused(isOfFrame ? this.#notStored(error) : error)
  }
}

const NO_WAITER: Waiter = { settled: () => {} }
const NOTHING: readonly never[] = []
