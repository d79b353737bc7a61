/** What keeps a service from working, gathered from its parts. A part says null while it is well, else what is wrong. */
export class Health {
  readonly #checks = new Map<string, () => string | null>()

  /** @param part for people: 'journal lane' */
  add(part: string, check: () => string | null): void {
    this.#checks.set(part, check)
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
}
