import type { Answer } from '../../src/engine/decision.ts'

/** Tells what the promise comes to. */
export function answerWith<Reply>(answer: Answer<Reply>, reply: Promise<Reply>): void {
  reply.then(
    (given) => answer.answered(given),
    (error: unknown) => answer.refused(error),
  )
}
