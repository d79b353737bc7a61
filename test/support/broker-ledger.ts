/**
 * Clients of a broker in a cluster, and what they were told: which record has which offset, and how far the stream reached.
 *
 * A client that is refused, or gets no answer, asks another node. Each record is published once: without an acknowledgement, it may be stored or not.
 */
import type { BrokerServer, ReplayPage } from './broker.ts'
import { abortAfter, timePasses } from './waiting.ts'

const ANSWER_MS = 3000
const PAUSE_MS = 20
const PAGE_RECORDS = 1000
const SHOWN_CHARACTERS = 20

export class BrokerLedger {
  readonly problems: string[] = []
  /** Payload by offset. */
  readonly acknowledged = new Map<number, string>()
  readonly #nodes: () => readonly BrokerServer[]
  readonly #stream: string
  readonly #padding: string
  #next = 0
  #answered = 0
  #claimed = 0
  #toldNext = 0
  #isOver = false
  #loops: Promise<unknown> = Promise.resolve()

  /** @param payloadBytes bytes that pad each payload, so that segments fill sooner */
  constructor(nodes: () => readonly BrokerServer[], stream: string, { payloadBytes = 0 } = {}) {
    this.#nodes = nodes
    this.#stream = stream
    this.#padding = ' '.padEnd(payloadBytes, 'x')
  }

  /** Number of publishes and reads that were answered. */
  get answered(): number {
    return this.#answered
  }

  /** Number of records that claims were given. */
  get claimed(): number {
    return this.#claimed
  }

  /** Starts clients that publish, one that reads and one that claims. They go on until `end`. */
  begin(publishers: number): void {
    const loops = [this.#read(), this.#claim(), ...Array.from({ length: publishers }, () => this.#publish())]
    this.#loops = Promise.all(loops)
  }

  /** Resolves when every client has heard what became of its last request. */
  async end(): Promise<void> {
    this.#isOver = true
    await this.#loops
  }

  async #publish(): Promise<void> {
    for (let at = 0; !this.#isOver;) {
      const id = `record-${(this.#next += 1)}`
      const payload = `${id}${this.#padding}`
      const body = JSON.stringify({ message_id: id, payload })
      const reply = await this.#ask(at, 'POST', '/records', body)
      const told = reply?.status === 201 ? ((await json(reply)) as { readonly offset?: number } | null) : null
      if (told?.offset === undefined) at = await this.#another(at, reply)
      else this.#note(told.offset, payload)
    }
  }

  /** The end that the stream reports is never below one that a client was told before the request. */
  async #read(): Promise<void> {
    for (let at = 0; !this.#isOver;) {
      const floor = this.#toldNext
      const reply = await this.#ask(at, 'GET', '', null)
      const told = reply?.status === 200 ? ((await json(reply)) as { readonly next_offset?: number } | null) : null
      if (told?.next_offset === undefined) at = await this.#another(at, reply)
      else if (told.next_offset < floor) this.problems.push(`the stream ended at ${told.next_offset} after ${floor}`)
      else {
        this.#toldNext = Math.max(this.#toldNext, told.next_offset)
        this.#answered += 1
        await timePasses(PAUSE_MS)
      }
    }
  }

  async #claim(): Promise<void> {
    for (let at = 0; !this.#isOver;) {
      const reply = await this.#ask(at, 'POST', '/consumer-groups/g/claims', '{"max_messages":1}')
      const told = reply?.status === 200 ? ((await json(reply)) as { readonly deliveries?: unknown[] } | null) : null
      if (told?.deliveries === undefined) at = await this.#another(at, reply)
      else this.#claimed += told.deliveries.length
      await timePasses(PAUSE_MS)
    }
  }

  /** All records of the stream on this node, which must lead. */
  async recordsOf(node: BrokerServer): Promise<ReadonlyMap<number, string>> {
    const found = new Map<number, string>()
    for (let from = 0; ;) {
      const reply = await fetch(`${this.#url(node)}/records?start_offset=${from}&max_records=${PAGE_RECORDS}`)
      if (reply.status !== 200) throw new Error(`${reply.status}: ${await reply.text()}`)
      const page = (await reply.json()) as ReplayPage
      for (const { offset, payload_hex: hex } of page.records) found.set(offset, Buffer.from(hex, 'hex').toString())
      from = page.next_offset
      if (page.end_of_stream) return found
    }
  }

  /** What is wrong with the records on a node; empty when every acknowledged record is there and none is there twice. */
  async problemsOf(node: BrokerServer): Promise<readonly string[]> {
    const found = await this.recordsOf(node)
    const problems: string[] = []
    for (const [offset, payload] of this.acknowledged) {
      const there = found.get(offset)
      if (there !== payload)
        problems.push(`offset ${offset} is ${shown(there)}, and was acknowledged as ${shown(payload)}`)
    }
    if (new Set(found.values()).size !== found.size) problems.push('a record is there twice')
    return problems
  }

  #note(offset: number, payload: string): void {
    const before = this.acknowledged.get(offset)
    if (before !== undefined)
      this.problems.push(`offset ${offset} was told of ${shown(before)} and of ${shown(payload)}`)
    this.acknowledged.set(offset, payload)
    this.#toldNext = Math.max(this.#toldNext, offset + 1)
    this.#answered += 1
  }

  async #ask(at: number, method: string, path: string, body: string | null): Promise<Response | null> {
    const nodes = this.#nodes()
    const url = `${this.#url(nodes[at % nodes.length]!)}${path}`
    const headers = { 'content-type': 'application/json' }
    return fetch(url, { method, body, headers, signal: abortAfter(ANSWER_MS) }).catch(() => null)
  }

  async #another(at: number, reply: Response | null): Promise<number> {
    await reply?.text().catch(() => {})
    await timePasses(PAUSE_MS)
    return at + 1
  }

  #url(node: BrokerServer): string {
    return `${node.url}/v1/streams/${this.#stream}`
  }
}

const shown = (payload: string | undefined): string => payload?.slice(0, SHOWN_CHARACTERS) ?? 'missing'
const json = (reply: Response): Promise<unknown> => reply.json().catch(() => null)
