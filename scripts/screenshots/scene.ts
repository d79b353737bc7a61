/** A small shop that has been open for an hour: its logs, traces, files and jobs, and what it does while it is watched. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConsoleServer } from '../../test/support/console.ts'
import { Shop } from './shop.ts'

const SEED = 20_261_124
const MINUTE_MS = 60_000
const VISITS = 620
/** Minutes ago, when payments began to be refused, and when that was over. */
const TROUBLE = { fromMinutes: 19, toMinutes: 14 }
const WORK_MS = 400

export class Scene {
  readonly #server: ConsoleServer
  readonly #shop = new Shop(SEED, 'local')
  #trace = ''
  #isWorking = false
  #published = 0

  constructor(server: ConsoleServer) {
    this.#server = server
  }

  /** Pages by the names of their pictures. */
  get pages(): Readonly<Record<string, string>> {
    return {
      logs: '/logs?dataset=checkout',
      'logs-search': '/logs?dataset=payments&q=refused+signal%3Alog&severity=error',
      live: '/logs?dataset=web&live=1',
      trace: `/traces/${this.#trace}`,
      'trace-logs': `/traces/${this.#trace}?tab=logs`,
      buckets: '/objects',
      objects: '/objects/invoices?prefix=2026%2F&key=2026%2F11.json',
      policy: '/objects/invoices?tab=settings',
      streams: '/streams',
      stream: '/streams/orders?record=118',
      group: '/streams/orders/groups/billing',
      'dead-letter': '/streams/orders.dead?record=0',
      settings: '/streams/orders?tab=settings',
      audit: '/audit',
    }
  }

  async fill(): Promise<void> {
    await this.#fillLogs()
    await this.#fillStreams()
    await this.#fillObjects()
  }

  /** Sends load until `rest` is called. */
  async work(): Promise<void> {
    this.#isWorking = true
    while (this.#isWorking) {
      const wave = 1 + Math.sin(Date.now() / 9000)
      for (let visits = 0; visits < 1 + 2 * wave; visits++) this.#shop.visit(Date.now() - 200)
      await this.#sendLogs()
      const records = Array.from({ length: Math.ceil(4 * wave) }, () => orderOf(this.#published++))
      await this.#broker('POST', 'mail/records/batch', { records })
      await this.#broker('POST', 'mail/consumer-groups/senders/claims', { max_messages: 2, lease_timeout_millis: 5000 })
      await this.#objects(`photos/upload-${this.#published}.txt`, 'x'.repeat(2000 * this.#published))
      await sleep(WORK_MS)
    }
  }

  rest(): void {
    this.#isWorking = false
  }

  async #fillLogs(): Promise<void> {
    const nowMs = Date.now()
    for (let visit = 0; visit < VISITS; visit++) {
      // More come in the middle of the hour.
      const part = visit / VISITS
      const agoMs = 60 * MINUTE_MS * (1 - part - 0.11 * Math.sin(2 * Math.PI * part))
      const minutes = agoMs / MINUTE_MS
      const isTrouble = minutes < TROUBLE.fromMinutes && minutes > TROUBLE.toMinutes
      this.#shop.visit(nowMs - agoMs, isTrouble && visit % 3 > 0 ? 'refused' : undefined)
    }
    this.#trace = this.#shop.visit(nowMs - 2 * MINUTE_MS, 'refused')
    await this.#sendLogs()
  }

  async #sendLogs(): Promise<void> {
    const headers = {
      'content-type': 'application/json',
      'x-logstore-tenant': 'local',
      authorization: 'Bearer local-dev-token',
    }
    for (const { path, body } of this.#shop.take()) {
      await fetch(`${this.#server.at('logstore')}${path}`, { method: 'POST', headers, body })
    }
  }

  #broker(method: string, path: string, body?: object): Promise<Response> {
    const init = { method, ...(body && { body: JSON.stringify(body) }) }
    return fetch(`${this.#server.at('broker')}/v1/streams/${path}`, init)
  }

  #objects(path: string, body?: string, headers: Record<string, string> = {}): Promise<Response> {
    const init = { method: 'PUT', headers, ...(body !== undefined && { body }) }
    return fetch(`${this.#server.at('objectstore')}/${path}`, init)
  }

  async #fillStreams(): Promise<void> {
    await this.#broker('PUT', 'orders.dead')
    await this.#broker('PUT', 'orders', {
      retention: { max_age_millis: 604_800_000 },
      failure_policy: { max_attempts: 3, dead_letter_stream: 'orders.dead' },
    })
    await this.#broker('PUT', 'mail', { retention: { max_bytes: 1_073_741_824 } })
    await this.#broker('PUT', 'thumbnails', { retention: { max_age_millis: 86_400_000 } })
    await this.#broker('POST', 'orders/records/batch', { records: Array.from({ length: 120 }, (_, at) => orderOf(at)) })
    const claimed = await this.#broker('POST', 'orders/consumer-groups/billing/claims', {
      max_messages: 6,
      lease_timeout_millis: 600_000,
    })
    const { subscription_id: subscription, deliveries } = (await claimed.json()) as {
      subscription_id: string
      deliveries: readonly { delivery_id: string }[]
    }
    const delivery = `orders/subscriptions/${subscription}/deliveries/${deliveries[0]!.delivery_id}`
    await this.#broker('POST', `${delivery}/dead-letter`, {
      dead_letter_stream: 'orders.dead',
      reason: 'the card was refused',
    })
    await this.#broker('POST', 'orders/consumer-groups/shipping/claims', {
      max_messages: 3,
      lease_timeout_millis: 90_000,
    })
    await this.#broker('PUT', 'orders/consumer-groups/billing/cursors/report', { offset: 40 })
  }

  async #fillObjects(): Promise<void> {
    for (const bucket of ['backups', 'invoices', 'photos']) await this.#objects(bucket)
    for (let month = 1; month <= 12; month++) {
      const body = JSON.stringify({ month: `2026-${month}`, invoices: 40 + month, total: 1234.5 * month })
      await this.#objects(`invoices/2026/${month}.json`, body, {
        'content-type': 'application/json',
        'x-obj-meta-author': 'billing',
        'x-obj-tagging': 'team=finance',
      })
    }
    await this.#objects('invoices?policy', JSON.stringify(POLICY))
  }
}

const POLICY = {
  Version: '2012-10-17',
  Statement: [
    {
      Sid: 'AccountantsRead',
      Effect: 'Allow',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: 'arn:aws:s3:::invoices/2026/*',
    },
  ],
}

const orderOf = (at: number): object => ({
  message_id: `order-${1000 + at}`,
  key: `customer-${at % 17}`,
  payload: JSON.stringify({ order: 1000 + at, state: ['paid', 'packed', 'sent'][at % 3], total: 19.9 + at }),
  headers: { 'content-type': 'application/json' },
})
