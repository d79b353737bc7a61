import type { UwsResponse } from './uws.ts'

/** An exchange as the senders of its answer see it. */
export interface AnswerHost {
  readonly response: UwsResponse
  readonly isGone: boolean
  writeHead(): void
  /** The exchange waits for the reader from now on. Every sweep calls `offer`, which hands the connection what it takes: the library may call late. */
  wait(offer: () => void): void
  /** The reader took so many bytes. */
  moved(bytes: number): void
  /** So many bytes stay in memory until the wait for the reader is over. */
  hold(bytes: number): void
  /** The wait for the reader is over. */
  waitOver(): void
  /** Runs the task outside the present callback of the library. */
  later(task: () => void): void
  /** `abandon` is called once, when the exchange ends. A later call of `whenGone` replaces it. */
  whenGone(abandon: () => void): void
  /** The answer failed before anything was sent. */
  failed(error: unknown): void
  finished(): void
}
