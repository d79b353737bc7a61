/** Nodes that replicate to each other, and an unreliable connection between them. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { AddressInfo } from 'node:net'
import type { Static } from 'typebox'
import {
  ReplicationControlReply,
  ReplicationPollReply,
  ReplicationStatusReply,
} from '../../src/broker/wire/node-answers.ts'
import { PublishBatchReply } from '../../src/broker/wire/record-answers.ts'
import { AuditPageReply } from '../../src/broker/wire/storage-answers.ts'
import type { BrokerServer } from './broker.ts'
import { temporaryDirectory } from './directories.ts'
import { timePasses } from './waiting.ts'

/** Flags of a node with this binding. */
export function boundTo(policies: readonly object[]): string[] {
  const file = `${temporaryDirectory()}/binding.json`
  writeFileSync(file, JSON.stringify({ policies }))
  return ['--replication-binding-file', file]
}

/** A policy from site a to site b. */
export const policyTo = (target_url: string, more: object = {}): object => ({
  name: 'dr',
  streams: ['orders*'],
  source_site: 'a',
  target_site: 'b',
  target_url,
  ...more,
})

export const numbered = (from: number, end: number): string[] =>
  Array.from({ length: end - from }, (_, i) => `m-${from + i}`)

export class Site {
  readonly node: BrokerServer

  constructor(node: BrokerServer) {
    this.node = node
  }

  async create(stream: string, body: object = {}): Promise<void> {
    const reply = await this.node.request('PUT', `/v1/streams/${stream}`, body)
    assert.equal(reply.status, 201, reply.text)
  }

  async publish(stream: string, ids: readonly string[]): Promise<Static<typeof PublishBatchReply>> {
    const records = ids.map((message_id) => ({ message_id, payload: `of ${message_id}` }))
    const reply = await this.node.request('POST', `/v1/streams/${stream}/records/batch`, { records })
    return reply.succeeded(PublishBatchReply)
  }

  /** All message ids of a stream; empty if there is no such stream. */
  async ids(stream: string): Promise<string[]> {
    const ids: string[] = []
    for (let start = 0; ;) {
      const reply = await this.node.request(
        'GET',
        `/v1/streams/${stream}/records?max_records=1000&start_offset=${start}`,
      )
      if (reply.status === 404) return ids
      const page = JSON.parse(reply.text) as {
        records: { message_id: string }[]
        next_offset: number
        end_of_stream: boolean
      }
      ids.push(...page.records.map(({ message_id }) => message_id))
      if (page.end_of_stream) return ids
      start = page.next_offset
    }
  }

  status(): Promise<Static<typeof ReplicationStatusReply>> {
    return this.node.get('/v1/replication/status', ReplicationStatusReply)
  }

  async worker(stream: string): Promise<Static<typeof ReplicationStatusReply>['workers'][number]> {
    const found = (await this.status()).workers.find((each) => each.stream === stream)
    assert(found, `there is a worker of ${stream}`)
    return found
  }

  async poll(): Promise<Static<typeof ReplicationPollReply>> {
    return (await this.node.request('POST', '/v1/replication/workers/poll')).succeeded(ReplicationPollReply)
  }

  async control(verb: 'pause' | 'resume', stream: string): Promise<Static<typeof ReplicationControlReply>> {
    const body = { stream, source_site: 'a', target_site: 'b', reason: 'maintenance' }
    return (await this.node.request('POST', `/v1/replication/workers/${verb}`, body)).succeeded(ReplicationControlReply)
  }

  async events(kind: string): Promise<Static<typeof AuditPageReply>['events']> {
    const { events } = await this.node.get('/v1/audit/events?max_records=1000', AuditPageReply)
    return events.filter((event) => event.kind === kind)
  }
}

/** What becomes of a request: it does not arrive; its answer does not; it arrives twice; it arrives after requests that were sent later. */
export type Fault = 'none' | 'lost' | 'unanswered' | 'twice' | 'late'

const LATE_MS = 100

/** Passes requests on to a node, at its present address. */
export class Relay {
  readonly #server: Server
  readonly #to: () => string
  /** Fault of the request with this number, counted from 0. */
  faultOf: (number: number) => Fault = () => 'none'
  requests = 0

  static async open(to: () => string): Promise<Relay> {
    const relay = new Relay(to)
    await new Promise<void>((resolve) => relay.#server.listen(0, '127.0.0.1', resolve))
    return relay
  }

  private constructor(to: () => string) {
    this.#to = to
    this.#server = createServer((request, response) => void this.#relay(request, response))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on a port
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #relay(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const fault = this.faultOf(this.requests++)
    try {
      const body = await buffer(request)
      if (fault === 'lost') return void response.destroy()
      if (fault === 'late') await timePasses(LATE_MS)
      const send = (): Promise<Response> =>
        fetch(`${this.#to()}${request.url}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body,
        })
      if (fault === 'twice') await (await send()).arrayBuffer()
      const answer = await send()
      const text = await answer.text()
      if (fault === 'unanswered') return void response.destroy()
      const next = answer.headers.get('x-mq-next-expected-offset')
      response.writeHead(answer.status, next === null ? {} : { 'x-mq-next-expected-offset': next })
      response.end(text)
    } catch {
      response.destroy() // the node is not there
    }
  }
}
