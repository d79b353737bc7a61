import type { Answer } from '../../src/engine/decision.ts'

/** Answers or refuses as the promise settles. */
export function answerWith<Reply>(answer: Answer<Reply>, reply: Promise<Reply>): void {
  reply.then(
    (given) => answer.answered(given),
    (error: unknown) => answer.refused(error),
  )
}
