/** Operations as promises, for in-process callers and for work of several steps. */
import type { Answer } from './decision.ts'

/** Something that a service can be asked: it takes the answer first. */
export type Operation<Call extends unknown[], Reply> = (answer: Answer<Reply>, ...call: Call) => void

/** The same operations, each with a promise in place of its answer. */
export type Asked<Operations> = {
  readonly [Name in keyof Operations]: Operations[Name] extends Operation<infer Call, infer Reply>
    ? (...call: Call) => Promise<Reply>
    : never
}

/** Rejects with what the answer is refused with. */
export const ask =
  <Call extends unknown[], Reply>(operation: Operation<Call, Reply>): ((...call: Call) => Promise<Reply>) =>
  (...call) =>
    new Promise((answered, refused) => operation({ answered, refused }, ...call))
