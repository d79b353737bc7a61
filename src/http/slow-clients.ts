/**
 * Finds the slowest of the clients that the server waits for. While there is room for all, none is refused for being slow. When places
 * or memory run out, the slowest client gives its place to the next one. So slow clients, however many, never shut out fast ones.
 *
 * [only-slow]  a client is given up only when it moves less than SLOW_BYTES_PER_SECOND, as an average in which the last
 *              AVERAGE_MS weigh most, and has had time to do better: SLOW_GRACE_MS, or SILENT_GRACE_MS when it has hardly moved at all
 * [own-time]   time counts only while the server waits for the client and the event loop turns: a stall of the server does not count
 */
import {
  AVERAGE_MS,
  HELD_BODY_BYTES_MAX,
  SERVED_TIME_TICK_MS,
  SILENT_GRACE_MS,
  SLOW_BYTES_PER_SECOND,
  SLOW_GRACE_MS,
  STEADY_MOVES_MIN,
  WAITED_CLIENTS_MAX,
} from './limits.ts'
import { LinkedList } from '../linked-list.ts'
import type { Link } from '../linked-list.ts'

/** A client that sends a body, or takes an answer. */
export interface WaitedClient {
  /** Bytes per second when the client is slow; null when it must not be given up. */
  slowRate(): number | null
  /** Ends the wait for the client; what it held is given back before this returns. */
  giveUp(): void
}

interface HoldingClient extends WaitedClient {
  /** Bytes of its body or answer that are in memory. Undefined: not known. */
  readonly heldBytes?: number
}

/** The slowest client; null when none is slow. */
export function slowestOf<Client extends WaitedClient>(clients: Iterable<Client>): Client | null {
  let slowest: Client | null = null
  let lowestRate = Infinity
  for (const client of clients) {
    const rate = client.slowRate()
    if (rate === null || rate >= lowestRate) continue
    slowest = client
    lowestRate = rate
  }
  return slowest
}

interface WantedRoom {
  readonly bytes: number
  readonly granted: () => void
}

/** The clients that one server waits for, bounded in number and in the memory that their bodies and answers hold. */
export class WaitedClients<Client extends HoldingClient> {
  readonly #heldBytesMax: number
  readonly #clients = new LinkedList<Client>()
  #heldBytes = 0
  /** Requests for room that are not granted yet. The oldest does not fit. */
  readonly #wanted = new LinkedList<WantedRoom>()

  constructor(heldBytesMax = HELD_BODY_BYTES_MAX) {
    this.#heldBytesMax = heldBytesMax
  }

  add(client: Client): Link<Client> {
    if (this.#clients.size >= WAITED_CLIENTS_MAX) slowestOf(this.#clients)?.giveUp()
    return this.#clients.add(client)
  }

  remove(link: Link<Client>): void {
    this.#clients.remove(link)
  }

  /** So many more bytes are held; fewer when negative. */
  hold(bytes: number): void {
    this.#heldBytes += bytes
    if (bytes > 0 && this.#heldBytes > this.#heldBytesMax) this.#slowestHolder()?.giveUp()
    if (bytes < 0) this.#grant()
  }

  /**
   * Asks for room for an answer before it is made. The room counts as held once `granted` is called, which may be at once. Requests get room in their
   * order.
   *
   * @returns a function that withdraws the request, if it was not granted
   */
  reserve(bytes: number, granted: () => void): () => void {
    const link = this.#wanted.add({ bytes, granted })
    this.#grant()
    if (link.isIn) this.giveUpSlowClients()
    return () => {
      this.#wanted.remove(link)
      this.#grant()
    }
  }

  /** Gives up slow clients while too much is held, or room is wanted. It also finds those that were not slow yet when the last bytes came. */
  giveUpSlowClients(): void {
    while (this.#heldBytes > this.#heldBytesMax || this.#wanted.size > 0) {
      const slowest = this.#slowestHolder()
      if (slowest === null) return
      slowest.giveUp()
    }
  }

  #grant(): void {
    for (let next = this.#wanted.oldest; next !== undefined; next = this.#wanted.oldest) {
      const { bytes, granted } = next.value
      if (this.#heldBytes > 0 && this.#heldBytes + bytes > this.#heldBytesMax) return
      this.#wanted.remove(next)
      this.#heldBytes += bytes
      granted()
    }
  }

  #slowestHolder(): Client | null {
    return slowestOf(Array.from(this.#clients).filter(({ heldBytes }) => heldBytes !== 0))
  }

  [Symbol.iterator](): Iterator<Client> {
    return this.#clients[Symbol.iterator]()
  }
}

/** Measures one client during one wait for it. Times are those of one `ServedTime`. */
export class Pace {
  readonly #sinceMs: number
  #movedAtMs: number
  #moves = 0
  /** Bytes moved, each weighing less the longer ago it was moved. */
  #weightedBytes = 0

  /** The wait for the client begins now. */
  constructor(nowMs: number) {
    this.#sinceMs = this.#movedAtMs = nowMs
  }

  moved(bytes: number, nowMs: number): void {
    this.#weightedBytes = this.#weightAt(nowMs) + bytes
    this.#movedAtMs = nowMs
    this.#moves++
  }

  /** [only-slow] */
  slowRate(nowMs: number): number | null {
    const graceMs = this.#moves < STEADY_MOVES_MIN ? SILENT_GRACE_MS : SLOW_GRACE_MS
    const waitedMs = nowMs - this.#sinceMs
    if (waitedMs < graceMs) return null
    const weightOfWaitMs = AVERAGE_MS * (1 - Math.exp(-waitedMs / AVERAGE_MS))
    const rate = (1000 * this.#weightAt(nowMs)) / weightOfWaitMs
    return rate < SLOW_BYTES_PER_SECOND ? rate : null
  }

  #weightAt(nowMs: number): number {
    return this.#weightedBytes * Math.exp((this.#movedAtMs - nowMs) / AVERAGE_MS)
  }
}

interface TickingClock {
  /** Monotonic. */
  nowMs(): number
  /** Calls `task` again and again until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
}

/** Time during which the event loop turned, in steps of a tick [own-time]. */
export class ServedTime {
  #nowMs = 0
  readonly stop: () => void

  constructor(clock: TickingClock) {
    let lastMs = clock.nowMs()
    this.stop = clock.every(SERVED_TIME_TICK_MS, () => {
      const nowMs = clock.nowMs()
      this.#nowMs += Math.min(nowMs - lastMs, 2 * SERVED_TIME_TICK_MS)
      lastMs = nowMs
    })
  }

  get nowMs(): number {
    return this.#nowMs
  }
}
