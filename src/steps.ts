/**
 * Long work in steps, written as a generator: the caller may do something else in between, and learns how far the work is.
 * The same work runs at once where no request waits for the thread (a tool of the command line), or where nothing may happen in between (the state
 * after frames were lost).
 */

/** Progress of the work. */
export interface Step {
  /** For people: 'reading the checkpoint'. */
  readonly phase: string
  readonly done: number
  /** 0: not known. */
  readonly total: number
  readonly unit: 'bytes' | 'segments'
}

export type Steps<Result> = Generator<Step, Result, undefined>

/** Runs steps to their end, with pauses or without. */
export type Pace = <Result>(steps: Steps<Result>) => Promise<Result>

export function atOnce<Result>(steps: Generator<unknown, Result, undefined>): Result {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

export const withoutPauses: Pace = async (steps) => atOnce(steps)

/** Turns the steps of a part into steps of the whole. @param parts yields how many bytes of the part are done */
export function* stepsOf<Result>(
  parts: Generator<number, Result, undefined>,
  { phase, done, total }: Pick<Step, 'phase' | 'done' | 'total'>,
): Steps<Result> {
  for (;;) {
    const part = parts.next()
    if (part.done) return part.value
    yield { phase, done: done + part.value, total, unit: 'bytes' }
  }
}
