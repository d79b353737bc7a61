/** Contract: a body of which bytes arrive at all is not slow. So slow senders may stay, but they never shut out another tenant. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eventually } from '../../support/waiting.ts'
import { policyTenant, requestHead } from '../../support/logstore.ts'
import type { RawConnection, Reply } from '../../support/logstore.ts'
import { JSON_LOGS, QUERY, jsonLogs, logRecordsOf, startForTests } from './batches.ts'

const GATEWAY_REQUESTS = 64 // the default
const DRIP_EVERY_MS = 300

const server = await startForTests({
  policy: [
    policyTenant('slow', 't', { records: null, bytes: null, concurrent_requests: null }),
    policyTenant('fast', 't', { records: null, bytes: null }),
  ],
})

const send = (tenant: string): Promise<Reply> =>
  server.request(JSON_LOGS, jsonLogs(logRecordsOf(1), { tenant }), { tenant, token: 't' })

/** Requests that send a byte of their bodies now and then, from `drip` to `stop`. */
class SlowSenders {
  readonly all: readonly RawConnection[]
  #timer: NodeJS.Timeout | null = null

  static async begin(path: string, bodyBytes: number, count: number): Promise<SlowSenders> {
    const all = await Promise.all(Array.from({ length: count }, () => server.connect()))
    const headers = { 'x-logstore-tenant': 'slow', authorization: 'Bearer t' }
    for (const connection of all) connection.write(requestHead(path, bodyBytes, headers))
    return new SlowSenders(all)
  }

  private constructor(all: readonly RawConnection[]) {
    this.all = all
  }

  drip(): void {
    this.#timer = setInterval(() => this.all.forEach((connection) => connection.write(' ')), DRIP_EVERY_MS)
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer)
    for (const connection of this.all) connection.close()
  }
}

describe('slow senders that have all places of the gateway', () => {
  for (const bodyBytes of [200, 1024 * 1024])
    it(`do not shut out another tenant (bodies of ${bodyBytes} bytes)`, async () => {
      const slow = await SlowSenders.begin(JSON_LOGS, bodyBytes, GATEWAY_REQUESTS)
      await eventually(async () => {
        const { text } = await server.request('/metrics', null)
        return text.includes(`logstore_gateway_requests_in_flight ${GATEWAY_REQUESTS}\n`)
      })
      slow.drip()
      // A sender is given up only after its time to do better, which on a busy machine is not the same for all.
      await eventually(async () => {
        const replies = await Promise.all(Array.from({ length: 12 }, () => send('fast')))
        return replies.every(({ status }) => status === 200)
      })
      const dropped = await Promise.race(slow.all.map((connection) => connection.reply()))
      assert.equal(dropped.status, 429)
      assert.equal(dropped.rejection().error.kind, 'concurrency_exceeded')
      assert.equal(dropped.rejection().retryable, true)
      slow.stop()
    })

  it('do not shut out their own tenant: of queries, too', async () => {
    let slow = await SlowSenders.begin(QUERY, 200, 16)
    const ask = (): Promise<Reply> => server.request(QUERY, { dataset: 'checkout' }, { tenant: 'slow', token: 't' })
    await eventually(async () => {
      if ((await ask()).status === 429) return true
      // Not all slots are held yet. Or, on a slow machine, they have been held for so long that silent senders are given up.
      slow.stop()
      slow = await SlowSenders.begin(QUERY, 200, 16)
      return false
    })
    slow.drip()
    await eventually(async () => (await ask()).status === 200)
    slow.stop()
  })
})
