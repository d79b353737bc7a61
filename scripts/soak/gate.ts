/** Lets all callers through, or none. */
export class Gate {
  #closed: PromiseWithResolvers<void> | null = null

  /** Resolves when it is open. */
  async pass(): Promise<void> {
    while (this.#closed !== null) await this.#closed.promise
  }

  close(): void {
    this.#closed ??= Promise.withResolvers<void>()
  }

  open(): void {
    this.#closed?.resolve()
    this.#closed = null
  }
}
