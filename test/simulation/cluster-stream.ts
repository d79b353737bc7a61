/**
 * A replicated stream as JetStream's is seen by its clients: it stores a message when the last sequence is the expected one.
 *
 * It is allowed all that a real one does at its worst: requests come late, twice or never; answers too. When the servers choose another leader,
 * what was proposed is stored without an answer, or dropped, and for some time nobody answers. A look-up may be answered from before.
 */
import type { ClusterMessage } from '../../src/cluster/message.ts'

export interface StreamTaste {
  /** How long the servers take to agree. */
  readonly agreeMs: number
  /** How often a look-up is answered from before. */
  readonly staleShare: number
  /** Refuses by what is proposed already, as newer servers do, besides by what is stored. */
  readonly refusesEarly: boolean
  /** Messages that are kept. */
  readonly kept: number
}

interface Proposal<Body> {
  readonly expectedLast: number
  readonly message: ClusterMessage<Body>
  readonly reply: ((sequence: number | null) => void) | null
}

export interface StreamWorld {
  readonly random: () => number
  readonly after: (delayMs: number, run: () => void) => void
}

export class SimulatedStream<Body> {
  readonly #world: StreamWorld
  readonly #taste: StreamTaste
  /** All that were ever stored; those before `first` cannot be read any more. */
  readonly #stored: ClusterMessage<Body>[] = []
  #proposed: Proposal<Body>[] = []
  #isElecting = false
  /** After each message that is stored. */
  onStored: (sequence: number, message: ClusterMessage<Body>) => void = () => {}

  constructor(world: StreamWorld, taste: StreamTaste) {
    this.#world = world
    this.#taste = taste
  }

  get last(): number {
    return this.#stored.length
  }

  get first(): number {
    return Math.max(1, this.#stored.length - this.#taste.kept + 1)
  }

  /** Null: it is no longer, or not yet, there. */
  at(sequence: number): ClusterMessage<Body> | null {
    return sequence < this.first ? null : (this.#stored[sequence - 1] ?? null)
  }

  /** @param reply gets the sequence, or null when it is refused; or is never called */
  publish(expectedLast: number, message: ClusterMessage<Body>, reply: (sequence: number | null) => void): void {
    if (this.#isElecting) return
    if (this.#taste.refusesEarly && expectedLast !== this.last + this.#proposed.length) return reply(null)
    const proposal = { expectedLast, message, reply }
    this.#proposed.push(proposal)
    this.#world.after(this.#taste.agreeMs * (0.5 + this.#world.random()), () => {
      // in order: all that were proposed before are stored first
      while (this.#proposed.includes(proposal)) this.#store(this.#proposed.shift()!)
    })
  }

  /** @param reply may never be called */
  lookUp(sequence: number, reply: (found: ClusterMessage<Body> | null) => void): void {
    const { random } = this.#world
    if (this.#isElecting && random() < 0.7) return
    const isStale = random() < this.#taste.staleShare
    const last = isStale ? this.last - Math.floor(random() * 4) : this.last
    reply(sequence > last ? null : this.at(sequence))
  }

  /** The servers choose another leader. */
  elect(forMs: number): void {
    if (this.#isElecting) return
    this.#isElecting = true
    const kept = Math.floor(this.#world.random() * (this.#proposed.length + 1))
    const proposed = this.#proposed.slice(0, kept).map((each) => ({ ...each, reply: null }))
    this.#proposed = []
    this.#world.after(forMs, () => {
      for (const each of proposed) this.#store(each)
      this.#isElecting = false
    })
  }

  #store({ expectedLast, message, reply }: Proposal<Body>): void {
    if (expectedLast !== this.last) return reply?.(null)
    this.#stored.push(message)
    reply?.(this.last)
    this.onStored(this.last, message)
  }
}
