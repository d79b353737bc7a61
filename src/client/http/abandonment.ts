/** Requests that are given up before they are answered. */
import type { HttpRequest } from './transport.ts'

/**
 * Says that the caller of a request no longer waits for its answer. A signal for every request would cost as much as the rest of the client's
 * work, so one is made only when it is read.
 */
export class Abandonment {
  #isAbandoned = false
  #controller: AbortController | null = null
  #listener: (() => void) | null = null

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#isAbandoned) this.#controller.abort()
    return this.#controller.signal
  }

  /** Replaces the listener before. */
  onAbandoned(listener: () => void): void {
    this.#listener = listener
    if (this.#isAbandoned) listener()
  }

  abandon(): void {
    this.#isAbandoned = true
    this.#listener?.()
    this.#controller?.abort()
  }
}

/** The key of the abandonment in the options of a request. */
const ABANDONMENT = Symbol('abandonment')

/**
 * One getter for all requests. V8 makes a hidden class of each object that is written with a getter of its own, and those keep each other alive until the
 * next full collection, with all that their requests held: a third of the client's time for a request went into copying that.
 */
const SIGNAL = {
  enumerable: true,
  get(this: { readonly [ABANDONMENT]: Abandonment }): AbortSignal {
    return this[ABANDONMENT].signal
  },
}

/** A request whose signal is made when it is first read. Copying the request reads it. */
export function abandonable(
  request: Omit<HttpRequest, 'signal' | 'onAbandoned'>,
  abandonment: Abandonment,
): HttpRequest {
  const made = {
    ...request,
    [ABANDONMENT]: abandonment,
    onAbandoned: (listener: () => void): void => abandonment.onAbandoned(listener),
  }
  return Object.defineProperty(made, 'signal', SIGNAL) as typeof made & { readonly signal: AbortSignal }
}
