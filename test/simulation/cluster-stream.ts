/**
 * A replicated stream, as clients see one of JetStream: it stores a message if the last sequence is the expected one.
 *
 * It does everything that a real one may do at its worst. Requests and answers come late, twice or never. When the servers choose another
 * leader, proposed messages are stored without an answer, or dropped, and for some time no server answers. The answer to a look-up may be stale.
 */
import type { ClusterMessage } from '../../src/cluster/message.ts'

export interface StreamTaste {
  /** Time that the servers take to agree. */
  readonly agreeMs: number
  /** Share of look-ups with a stale answer. */
  readonly staleShare: number
  /** Also refuses by what is proposed, like newer servers, not only by what is stored. */
  readonly refusesEarly: boolean
  /** Number of messages that the stream keeps. */
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
  /** All messages that were ever stored. Those before `first` can no longer be read. */
  readonly #stored: ClusterMessage<Body>[] = []
  #proposed: Proposal<Body>[] = []
  #isElecting = false
  /** Called after each message that is stored. */
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

  /** Null: no longer, or not yet, there. */
  at(sequence: number): ClusterMessage<Body> | null {
    return sequence < this.first ? null : (this.#stored[sequence - 1] ?? null)
  }

  /** @param reply gets the sequence; null: refused. It may never be called */
  publish(expectedLast: number, message: ClusterMessage<Body>, reply: (sequence: number | null) => void): void {
    if (this.#isElecting) return
    if (this.#taste.refusesEarly && expectedLast !== this.last + this.#proposed.length) return reply(null)
    const proposal = { expectedLast, message, reply }
    this.#proposed.push(proposal)
    this.#world.after(this.#taste.agreeMs * (0.5 + this.#world.random()), () => {
      // Earlier proposals are stored first, in order.
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
