/**
 * That nobody waits for an answer any more. A signal, which every request would need, costs as much as the rest of the client's work for a
 * request: one is made only for who asks for it.
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
