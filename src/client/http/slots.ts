/**
 * Admits at most so many calls at a time; the others wait in the order they came.
 *
 * S1  at most `max` slots are taken, and a slot that is given back goes to the call that waits longest
 * S2  at most `waitingMax` calls wait: further ones are refused, so that callers that never wait for an answer do not fill the memory
 */
import { aborted, transportFailed } from '../sdk-error.ts'

interface Waiting {
  readonly go: () => void
}

export class Slots {
  readonly #max: number
  readonly #waitingMax: number
  readonly #waiting = new Set<Waiting>()
  #taken = 0

  constructor(max: number, waitingMax: number) {
    this.#max = max
    this.#waitingMax = waitingMax
  }

  /** Null: a free slot is taken. Otherwise a promise, which resolves when a slot is taken. @throws SdkError */
  take(signal: AbortSignal): Promise<void> | null {
    if (signal.aborted) throw aborted()
    if (this.#taken < this.#max) {
      this.#taken += 1
      return null
    }
    if (this.#waiting.size >= this.#waitingMax) {
      throw transportFailed('too_many_calls', `${this.#waitingMax} calls wait for a connection already`, {
        retryable: true,
      })
    }
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(waiting)
        reject(aborted())
      }
      const go = (): void => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      const waiting = { go }
      this.#waiting.add(waiting)
      signal.addEventListener('abort', onAbort, { once: true })
    })
  }

  /** S1 */
  give(): void {
    const [first] = this.#waiting
    if (first === undefined) {
      this.#taken -= 1
      return
    }
    this.#waiting.delete(first)
    first.go()
  }
}
