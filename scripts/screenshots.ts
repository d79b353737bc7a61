/**
 * Pictures of every page of the console, with data as people have it, in both themes.
 *
 *   npm run screenshots [DIRECTORY]    default: docs/screenshots
 */
import { mkdirSync } from 'node:fs'
import { ConsoleServer, Visitor, startBrowser } from '../test/support/console.ts'

const directory = process.argv[2] ?? 'docs/screenshots'
mkdirSync(directory, { recursive: true })

const PAGES = {
  overview: '/',
  streams: '/streams',
  stream: '/streams/orders?record=118',
  group: '/streams/orders/groups/billing',
  'dead-letter': '/streams/orders.dead?record=0',
  audit: '/audit',
  buckets: '/objects',
  objects: '/objects/invoices?prefix=2026%2F&key=2026%2F11.json',
  policy: '/objects/invoices?tab=settings',
}

const server = await ConsoleServer.start({ MQ_METRICS_EXPOSURE: 'http' })
const browser = await startBrowser()
try {
  await fill()
  for (const theme of ['light', 'dark'] as const) {
    const visitor = await Visitor.open(browser, server.at('console'), theme)
    const { page } = visitor
    for (const [name, path] of Object.entries(PAGES)) {
      await page.goto(path)
      await page.waitForLoadState('networkidle').catch(() => {}) // a page that asks again and again has been idle before
      // two samples make a rate
      if (path === '/')
        await page
          .getByText(/^[\d.]+\/s$/)
          .nth(4)
          .waitFor()
      await page.screenshot({ path: `${directory}/${name}-${theme}.png` })
    }
    await visitor.close()
  }
} finally {
  await browser.close()
  await server.stop()
}

async function fill(): Promise<void> {
  const broker = (method: string, path: string, body?: object): Promise<Response> =>
    fetch(`${server.at('broker')}/v1/streams/${path}`, { method, ...(body && { body: JSON.stringify(body) }) })
  const objects = (path: string, body?: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${server.at('objectstore')}/${path}`, { method: 'PUT', headers, ...(body !== undefined && { body }) })

  await broker('PUT', 'orders.dead')
  await broker('PUT', 'orders', {
    retention: { max_age_millis: 604_800_000 },
    failure_policy: { max_attempts: 3, dead_letter_stream: 'orders.dead' },
  })
  await broker('PUT', 'mail', { retention: { max_bytes: 1_073_741_824 } })
  const records = Array.from({ length: 120 }, (_, at) => ({
    message_id: `order-${1000 + at}`,
    key: `customer-${at % 17}`,
    payload: JSON.stringify({ order: 1000 + at, state: ['paid', 'packed', 'sent'][at % 3], total: 19.9 + at }),
    headers: { 'content-type': 'application/json' },
  }))
  await broker('POST', 'orders/records/batch', { records })
  const claimed = await broker('POST', 'orders/consumer-groups/billing/claims', {
    max_messages: 6,
    lease_timeout_millis: 600_000,
  })
  const { subscription_id: subscription, deliveries } = (await claimed.json()) as {
    subscription_id: string
    deliveries: readonly { delivery_id: string }[]
  }
  const delivery = `orders/subscriptions/${subscription}/deliveries/${deliveries[0]!.delivery_id}`
  await broker('POST', `${delivery}/dead-letter`, { dead_letter_stream: 'orders.dead', reason: 'the card was refused' })
  await broker('PUT', 'orders/consumer-groups/billing/cursors/report', { offset: 40 })

  for (const bucket of ['backups', 'invoices', 'photos']) await objects(bucket)
  for (let month = 1; month <= 12; month++) {
    const body = JSON.stringify({ month: `2026-${month}`, invoices: 40 + month, total: 1234.5 * month })
    await objects(`invoices/2026/${month}.json`, body, {
      'content-type': 'application/json',
      'x-obj-meta-author': 'billing',
      'x-obj-tagging': 'team=finance',
    })
  }
}
