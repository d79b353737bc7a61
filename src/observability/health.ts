/**
 * What keeps a service from working, and what it works in spite of, gathered from its parts.
 *
 *   problem       it does not take or answer what it is there for: not ready
 *   degradation   it does, but something was lost or is about to be: a replica, stored bytes, a disk. A person has to act
 */
export interface Degradation {
  /** `replica_lost`, `damage`, `read_errors`, `query_store` or `node_id_twice`. */
  readonly kind: string
  readonly reason: string
  /** What to do about it. */
  readonly action: string
}

export interface StandingDegradation extends Degradation {
  /** When it was first seen, milliseconds since the Unix epoch. */
  readonly sinceMs: number
}

export class Health {
  readonly #checks = new Map<string, () => string | null>()
  readonly #degradations: (() => readonly Degradation[])[] = []
  readonly #wallMs: () => number
  /** By kind. */
  #since = new Map<string, number>()

  constructor(wallMs: () => number) {
    this.#wallMs = wallMs
  }

  /**
   * @param part  for people: 'journal lane'
   * @param check null while the part is well, else what is wrong
   */
  add(part: string, check: () => string | null): void {
    this.#checks.set(part, check)
  }

  addDegradations(check: () => readonly Degradation[]): void {
    this.#degradations.push(check)
  }

  /** One sentence for each part that is not well, in the order the parts were added. */
  problems(): readonly string[] {
    const problems: string[] = []
    for (const [part, check] of this.#checks) {
      const problem = check()
      if (problem !== null) problems.push(`${part}: ${problem}`)
    }
    return problems
  }

  degradations(): readonly StandingDegradation[] {
    const found = this.#degradations.flatMap((check) => check())
    const nowMs = this.#wallMs()
    this.#since = new Map(found.map(({ kind }) => [kind, this.#since.get(kind) ?? nowMs]))
    return found.map((degradation) => ({ ...degradation, sinceMs: this.#since.get(degradation.kind)! }))
  }
}
