/**
 * Operations that wait until there is something for them, in the order they came.
 *
 * W1  an operation leaves once: it decided something other than to wait, its time is over, or its caller is gone
 * W2  they decide in the order in which they came, and only again when there is something new
 * W3  an operation whose decision wakes its own queue is skipped meanwhile: those before it decide, those behind it follow after it
 * W4  a wake of all queues of a number asks them in slices (slices.ts). The others follow in later turns, except those that
 *     parked after the wake. `catchUp` asks one queue at once, for a newcomer that decides before it is parked (W2)
 */
import type { Waiting, WaitingPlace } from './decision.ts'
import { DueHeap } from './due-heap.ts'
import { Slices } from './slices.ts'

export interface Parkable {
  /** @param leave to be called before anything is done @returns what it waits for still; null: nothing */
  decideAgain(leave: () => void): Waiting | null
  decide(turn: 'last'): void
}

export interface ParkedOptions {
  /** Monotonic. */
  readonly nowMs: () => number
  readonly waitingMax: number
  /** Calls once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
}

interface Parking {
  /** Number of the operation in the order in which all were parked. */
  readonly order: number
  readonly place: WaitingPlace
  readonly run: Parkable
  readonly slot: number
  isDeciding: boolean
}

/** All queues of a number are asked. */
interface Wake {
  readonly asks: Generator<void, void, void>
  /** It was woken again meanwhile. */
  isRepeated: boolean
}

const SLOTS_FIRST = 64

export class Parked {
  readonly #nowMs: () => number
  readonly #max: number
  /** By number, then by queue. */
  readonly #places = new Map<number, Map<string, Set<Parking>>>()
  readonly #due = new DueHeap()
  /** By slot, null where it is free. */
  #slots: (Parking | null)[] = []
  #freeSlots: number[] = []
  #count = 0
  #parkedEver = 0
  /** By number: wakes that have not asked all operations yet. */
  readonly #wakes = new Map<number, Wake>()
  readonly #slices: Slices
  #isAsking = false
  #isClosed = false

  constructor({ nowMs, waitingMax, defer }: ParkedOptions) {
    this.#nowMs = nowMs
    this.#max = waitingMax
    this.#slices = new Slices({ step: () => this.#askNext(), runRest: () => this.#askSlice(), defer, nowMs })
  }

  get count(): number {
    return this.#count
  }

  get isFull(): boolean {
    return this.#count >= this.#max
  }

  park({ place, waitMs, onAbandoned }: Waiting, run: Parkable): void {
    if (this.#isClosed) return run.decide('last')
    const slot = this.#takeSlot()
    const parking: Parking = { order: this.#parkedEver++, place, run, slot, isDeciding: false }
    this.#slots[slot] = parking
    this.#due.add(slot, this.#nowMs() + waitMs)
    this.#queueOf(place).add(parking)
    this.#count += 1
    onAbandoned(() => this.#end(parking)) // at once, when its client is gone already
  }

  /** There may be something new at a number, or, if a queue is named, in that queue only: then the queue is asked at once. */
  wake(number: number, queue?: string): void {
    if (queue !== undefined) return this.#askAll(this.#places.get(number)?.get(queue))
    const underWay = this.#wakes.get(number)
    if (underWay !== undefined) underWay.isRepeated = true
    else this.#begin(number)
    if (!this.#isAsking && !this.#slices.isDeferred) this.#askSlice()
  }

  /** W4 */
  catchUp({ number, queue }: WaitingPlace): void {
    if (this.#wakes.has(number)) this.wake(number, queue)
  }

  /** Ends the waits whose time is over. */
  endExpired(): void {
    const nowMs = this.#nowMs()
    while (this.#due.firstDueMs <= nowMs) this.#end(this.#slots[this.#due.first]!)
  }

  /** Ends all waits. From here on no operation waits. */
  close(): void {
    this.#isClosed = true
    this.endAll()
  }

  /** Ends the waits that there are. */
  endAll(): void {
    for (const parking of this.#slots) if (parking) this.#end(parking)
  }

  #begin(number: number): void {
    const queues = this.#places.get(number)
    if (queues !== undefined) this.#wakes.set(number, { asks: this.#askQueues(queues), isRepeated: false })
  }

  /** W4 */
  #askSlice(): void {
    this.#isAsking = true
    this.#slices.run()
    this.#isAsking = false
  }

  /** False: no operation is left to be asked. */
  #askNext(): boolean {
    for (const [number, wake] of this.#wakes) {
      if (!wake.asks.next().done) return true
      this.#wakes.delete(number)
      if (wake.isRepeated) this.#begin(number) // comes last
    }
    return false
  }

  *#askQueues(queues: ReadonlyMap<string, Set<Parking>>): Wake['asks'] {
    const end = this.#parkedEver
    for (const waiting of queues.values()) {
      for (const parking of waiting) {
        if (parking.order >= end) break
        const isEnough = this.#ask(parking)
        yield
        if (isEnough) break
      }
    }
  }

  #askAll(waiting: ReadonlySet<Parking> | undefined): void {
    for (const parking of waiting ?? []) if (this.#ask(parking)) return
  }

  /** W2, W3. @returns whether those behind it in its queue are not to be asked */
  #ask(parking: Parking): boolean {
    if (parking.isDeciding) return true
    parking.isDeciding = true
    const still = parking.run.decideAgain(() => this.#leave(parking))
    parking.isDeciding = false
    return still?.takesAny ?? false
  }

  /** W1 */
  #end(parking: Parking): void {
    if (this.#leave(parking)) parking.run.decide('last')
  }

  #leave(parking: Parking): boolean {
    const { place, slot } = parking
    if (this.#slots[slot] !== parking) return false
    this.#slots[slot] = null
    this.#freeSlots.push(slot)
    this.#due.remove(slot)
    this.#count -= 1
    const queues = this.#places.get(place.number)!
    const queue = queues.get(place.queue)!
    queue.delete(parking)
    if (queue.size === 0) queues.delete(place.queue)
    if (queues.size === 0) this.#places.delete(place.number)
    return true
  }

  #queueOf({ number, queue }: WaitingPlace): Set<Parking> {
    let queues = this.#places.get(number)
    if (queues === undefined) this.#places.set(number, (queues = new Map()))
    let waiting = queues.get(queue)
    if (waiting === undefined) queues.set(queue, (waiting = new Set()))
    return waiting
  }

  #takeSlot(): number {
    const free = this.#freeSlots.pop()
    if (free !== undefined) return free
    const before = this.#slots.length
    const capacity = Math.max(SLOTS_FIRST, 2 * before)
    this.#due.resize(
      capacity,
      Float64Array.from({ length: capacity }, (_, slot) => slot),
    )
    for (let slot = capacity - 1; slot >= before; slot--) {
      this.#slots[slot] = null
      this.#freeSlots.push(slot)
    }
    return this.#freeSlots.pop()!
  }
}
