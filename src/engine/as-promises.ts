/** Operations as promises, for in-process callers and for work of several steps. */
import type { Answer } from './decision.ts'

/** Something that a service can be asked: it takes the answer first. */
export type Operation<Call extends unknown[], Reply> = (answer: Answer<Reply>, ...call: Call) => void

/** The same operations, each with a promise in place of its answer. */
export type PromisedOperations<Operations> = {
  readonly [Name in keyof Operations]: Operations[Name] extends Operation<infer Call, infer Reply>
    ? (...call: Call) => Promise<Reply>
    : never
}

/** Each rejects with what its answer is refused with. */
export function asPromises<Operations extends object>(operations: Operations): PromisedOperations<Operations> {
  const ask =
    (operation: Operation<unknown[], unknown>) =>
    (...call: unknown[]) =>
      new Promise((answered, refused) => operation({ answered, refused }, ...call))
  const all = Object.entries(operations).map(([name, operation]) => [name, ask(operation)] as const)
  return Object.fromEntries(all) as PromisedOperations<Operations> // the same names
}
