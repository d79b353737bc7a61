import type { UwsResponse } from './uws.ts'

/** An exchange as the senders of its answer see it. */
export interface AnswerHost {
  readonly response: UwsResponse
  readonly isGone: boolean
  writeHead(): void
  /** The reader is waited for from now on. `offer` hands the connection what it takes, also while the library does not call. */
  wait(offer: () => void): void
  /** The reader took so much. */
  moved(bytes: number): void
  /** So many bytes stay in memory until the reader is not waited for any more. */
  hold(bytes: number): void
  /** The reader is not waited for any more. */
  waitOver(): void
  /** Outside the present callback of the library. */
  later(task: () => void): void
  /** Called at most once, unless another sender takes over and calls it again. */
  whenGone(abandon: () => void): void
  /** Nothing was sent yet. */
  failed(error: unknown): void
  finished(): void
}
