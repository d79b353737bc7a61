/**
 * What one exchange holds in memory, as the server counts it (slow-clients.ts).
 *
 * M1  a long answer is in memory as a whole before its client reads any of it. So room for it is reserved before it is made; room for a long body may be
 *     reserved, too. Reserved bytes count as held until the answer is made; from then on its bytes that wait for the reader count. An answer that is
 *     made while it is sent counts as its reserved bytes until its end
 */

interface Counter {
  hold(bytes: number): void
  reserve(bytes: number, granted: () => void): () => void
}

export class HeldMemory {
  readonly #counter: Counter
  /** Bytes of the body, or of the answer, that are in memory. */
  #bytes = 0
  /** M1 */
  #reservedBytes = 0
  #withdraw = (): void => {}

  constructor(counter: Counter) {
    this.#counter = counter
  }

  get bytes(): number {
    return this.#bytes + this.#reservedBytes
  }

  /** So many bytes of the body are in memory by now. */
  holdBody(bytes: number): void {
    const more = bytes - this.#bytes
    this.#bytes = bytes
    this.#counter.hold(more)
  }

  /** So many bytes of the answer wait for their reader. */
  holdAnswer(bytes: number): void {
    const more = bytes - this.#reservedBytes
    this.#bytes += bytes
    this.#reservedBytes = 0
    this.#counter.hold(more)
  }

  /** Neither body nor answer are in memory any more. */
  release(): void {
    if (this.#bytes === 0) return
    this.#counter.hold(-this.#bytes)
    this.#bytes = 0
  }

  /** M1. Calls `granted`, maybe at once, unless the request is withdrawn before. */
  reserve(bytes: number, granted: () => void): void {
    this.#withdraw = this.#counter.reserve(bytes, () => {
      this.#reservedBytes = bytes
      granted()
    })
  }

  /** The answer is made, or there will be none. */
  unreserve(): void {
    this.#withdraw()
    if (this.#reservedBytes === 0) return
    this.#counter.hold(-this.#reservedBytes)
    this.#reservedBytes = 0
  }
}
