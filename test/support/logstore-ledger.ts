/**
 * Senders of a log store in a cluster, and what they were told. Each sends a batch to one node after the other until it is acknowledged, as an
 * exporter does. Now and then it repeats an acknowledged batch to the node that leads by then, which has to recognise it.
 */
import assert from 'node:assert/strict'
import { DEVELOPMENT_CREDENTIALS, policyTenant } from './logstore.ts'
import type { LogStoreServer } from './logstore.ts'
import { logsRequest, text, toOtlpJson } from './otlp.ts'
import { abortAfter, timePasses } from './waiting.ts'

const ANSWER_MS = 3000
const PAUSE_MS = 20
const RECORDS = 20
/** One in this many batches is sent again. */
const REPEATED = 4
const PADDING = 'x'.repeat(300)
const FIRST_NS = 1_767_225_600_000_000_000n

/** No batch is refused because of a quota. */
export const LEDGER_POLICY = [
  policyTenant('local', 'local-dev-token', { records: null, bytes: null, concurrent_requests: null }),
]

export const LEDGER_HEADERS = {
  'x-logstore-tenant': DEVELOPMENT_CREDENTIALS.tenant,
  authorization: `Bearer ${DEVELOPMENT_CREDENTIALS.token}`,
}

interface IngestAnswer {
  readonly duplicate_records: number
  readonly record_ids: readonly string[]
}

interface SentBatch {
  readonly name: string
  readonly body: string
  readonly ids: readonly string[]
}

export class LogStoreLedger {
  readonly problems: string[] = []
  /** Names of batches. */
  readonly acknowledged = new Set<string>()
  /** Batches that were acknowledged, and reads that were answered. */
  answered = 0
  /** Answers by status. */
  readonly statuses = new Map<number, number>()
  readonly #nodes: () => readonly LogStoreServer[]
  readonly #dataset: string
  #isOver = false
  #count = 0
  #loops: Promise<unknown> = Promise.resolve()

  constructor(nodes: () => readonly LogStoreServer[], dataset: string) {
    this.#nodes = nodes
    this.#dataset = dataset
  }

  begin(senders: number): void {
    this.#loops = Promise.all(Array.from({ length: senders }, () => this.#send()))
  }

  /** Resolves when every sender has heard what became of its last batch. */
  async end(): Promise<void> {
    this.#isOver = true
    await this.#loops
  }

  async #send(): Promise<void> {
    let at = 0
    let before: SentBatch | null = null
    for (let n = 1; !this.#isOver; n += 1) {
      const name = `batch-${(this.#count += 1)}-`
      const sent: SentBatch | null = await this.#store(name, this.#bodyOf(name), () => (at += 1))
      if (sent === null) return
      this.acknowledged.add(name)
      this.answered += 1
      if (n % REPEATED === 0 && before !== null) await this.#repeat(at, before)
      await this.#read(at, sent)
      before = sent
    }
  }

  /** Null: the test ended before the batch was acknowledged. */
  async #store(name: string, body: string, another: () => number): Promise<SentBatch | null> {
    for (let at = another(); ; at = another()) {
      const answer = await this.#ask<IngestAnswer>(at, '/v1/otlp/logs', body)
      if (answer !== null) return { name, body, ids: answer.record_ids }
      if (this.#isOver) return null
      await timePasses(PAUSE_MS)
    }
  }

  async #repeat(at: number, { name, body, ids }: SentBatch): Promise<void> {
    const answer = await this.#ask<IngestAnswer>(at, '/v1/otlp/logs', body)
    if (answer === null) return
    if (answer.duplicate_records !== RECORDS) this.problems.push(`${name} was stored twice`)
    if (answer.record_ids.join() !== ids.join()) this.problems.push(`${name} got other ids`)
  }

  /** A node that answers has every batch that was acknowledged before the request. */
  async #read(at: number, { name, ids }: SentBatch): Promise<void> {
    const query = JSON.stringify({ dataset: this.#dataset, filter: { record_id: ids[0] } })
    const answer = await this.#ask<{ readonly matched_records: number }>(at, '/v1/query', query)
    if (answer === null) return
    if (answer.matched_records !== 1) this.problems.push(`${name} was found ${answer.matched_records} times`)
    this.answered += 1
  }

  /** What is wrong with the records on a node, which must lead; empty when every acknowledged batch is whole and no record is there twice. */
  async problemsOf(node: LogStoreServer): Promise<readonly string[]> {
    const reply = await fetch(`${node.url}/v1/export`, this.#post(JSON.stringify({ dataset: this.#dataset })))
    assert.equal(reply.status, 200)
    const found = new Map<string, number>()
    const lines = (await reply.text()).trimEnd().split('\n')
    assert.match(lines.pop()!, /"status":"complete"/)
    for (const line of lines) {
      const [record] = /batch-[0-9]+-[0-9]+/.exec(line) ?? []
      assert.ok(record, line)
      found.set(record, (found.get(record) ?? 0) + 1)
    }
    const problems = [...found].filter(([, times]) => times > 1).map(([record, times]) => `${record}: ${times} times`)
    for (const name of this.acknowledged) {
      for (let i = 0; i < RECORDS; i += 1) if (!found.has(`${name}${i}`)) problems.push(`${name}${i} is lost`)
    }
    return problems
  }

  #bodyOf(name: string): string {
    const records = Array.from({ length: RECORDS }, (_, i) => ({
      timeUnixNano: String(FIRST_NS + BigInt(this.#count * RECORDS + i)),
      body: { stringValue: `${name}${i} ${PADDING}` },
    }))
    const claims = [text('service.name', this.#dataset), text('tenant_id', DEVELOPMENT_CREDENTIALS.tenant)]
    return JSON.stringify(toOtlpJson(logsRequest(records, claims)))
  }

  #post(body: string): RequestInit {
    return { method: 'POST', body, headers: { 'content-type': 'application/json', ...LEDGER_HEADERS } }
  }

  /** Null: the request was refused, or there was no answer. */
  async #ask<Answer>(at: number, path: string, body: string): Promise<Answer | null> {
    const nodes = this.#nodes()
    const url = `${nodes[at % nodes.length]!.url}${path}`
    try {
      const reply = await fetch(url, { ...this.#post(body), signal: abortAfter(ANSWER_MS) })
      this.statuses.set(reply.status, (this.statuses.get(reply.status) ?? 0) + 1)
      const answer: unknown = await reply.json()
      return reply.status === 200 ? (answer as Answer) : null
    } catch {
      return null
    }
  }
}
