/** Issue "The console", 3: finding log records and spans in a browser: by search, by time, live, and in their trace. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import { Shop } from '../../scripts/screenshots/shop.ts'
import { ConsoleServer, SwitchableProxy, Visitor, startBrowser } from '../support/console.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { policyTenant } from '../support/logstore.ts'
import { eventually } from '../support/waiting.ts'

const HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
const TOKEN = 'a-token-of-the-log-store'
/** Scrolls down, page by page, until the list has this text. */
const toTheEnd = (text: string): string => `new Promise((resolve) => {
  const list = document.querySelector('.list')
  const turn = () => {
    list.scrollTop = list.scrollHeight
    if (list.textContent.includes('${text}')) resolve()
    else requestAnimationFrame(turn)
  }
  turn()
})`
const ROWS_AT_ONCE = 5000
const NOBODY = '127.0.0.1:1'

const policyFile = `${temporaryDirectory()}/tenants.json`
const unlimited = { records: null, bytes: null, concurrent_requests: null }
const tenant = { ...policyTenant('acme', TOKEN, unlimited), max_records_per_batch: 8192 }
writeFileSync(policyFile, JSON.stringify({ tenants: [tenant] }))

const proxy = await SwitchableProxy.open(NOBODY)
const server = await ConsoleServer.start(
  { LOGSTORE_TENANT_POLICY_FILE: policyFile, TRILOG_CONSOLE_LOGSTORE_URL: proxy.url },
  ['logstore'],
)
proxy.target = new URL(server.at('logstore')).host
const browser = await startBrowser()
const visitor = await Visitor.open(browser, server.at('console'))
const { page } = visitor
after(async () => {
  await browser.close()
  await server.kill()
})

const rows = page.getByRole('list', { name: 'Records found' })
const live = page.getByRole('list', { name: 'Records as they come' })
const detail = page.getByRole('complementary', { name: 'Record' })
const found = page.getByRole('region', { name: 'Records', exact: true }).getByRole('status').first()

async function send(path: string, body: string): Promise<void> {
  const headers = { 'content-type': 'application/json', 'x-logstore-tenant': 'acme', authorization: `Bearer ${TOKEN}` }
  const answer = await fetch(`${server.at('logstore')}${path}`, { method: 'POST', body, headers })
  assert.equal(answer.status, 200, await answer.text())
}

const attribute = (key: string, value: string): object => ({ key, value: { stringValue: value } })

function sendLines(dataset: string, lines: readonly object[]): Promise<void> {
  const resource = { attributes: [attribute('tenant_id', 'acme'), attribute('service.name', dataset)] }
  return send('/v1/otlp/logs', JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords: lines }] }] }))
}

const lineAt = (ms: number, text: string, more: object = {}): object => ({
  timeUnixNano: `${ms}000000`,
  severityNumber: 9,
  body: { stringValue: text },
  ...more,
})

/** An hour of the shop. Near its end, one payment is refused. */
const nowMs = Date.now()
const shop = new Shop(1, 'acme')
for (let visit = 0; visit < 60; visit++)
  shop.visit(nowMs - 3_500_000 + visit * 55_000, visit % 2 ? 'browse' : 'checkout')
const refusedTrace = shop.visit(nowMs - 120_000, 'refused')

describe('logs in the console', () => {
  it('are for those who sign in, and begin with the one command that sends a record', async () => {
    await page.goto('/logs')
    await page.getByLabel('Tenant').fill('acme')
    await page.getByLabel('Token').fill('wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').waitFor()
    await page.getByLabel('Token').fill(TOKEN)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'No log record yet' }).waitFor()
    const command = await page.getByLabel('Command', { exact: true }).textContent()
    assert.match(command!, /^curl http:\S+\/v1\/otlp\/logs .*"x-logstore-tenant|^curl .*x-logstore-tenant: acme/)
    assert.ok(!command!.includes(TOKEN))
  })

  it('that were sent by OTLP are found by a search, and filtered by what they say', async () => {
    for (const { path, body } of shop.take()) await send(path, body)
    await page.getByRole('button', { name: 'look again' }).click()
    await page.getByLabel('Dataset').selectOption('payments')
    await rows.getByRole('button').first().waitFor()

    await page.keyboard.press('/')
    await page.keyboard.type('refused signal:log')
    await page.keyboard.press('Enter')
    await found.getByText('1 record').waitFor()
    assert.match(page.url(), /dataset=payments.*q=refused/)
    await rows.getByRole('button', { name: /charge of order \d+ refused: card_declined/ }).click()
    await detail.getByText('error.type').waitFor()
    assert.match(page.url(), /record=logstore_[0-9a-f]{32}/)

    await detail.getByRole('link', { name: 'Only records with error.type card_declined' }).click()
    await page.getByRole('button', { name: /Remove the condition attributes.error.type:"card_declined"/ }).waitFor()
    await page.goBack()
    await detail.getByRole('link', { name: 'Leave out error.type card_declined' }).click()
    await page.getByRole('heading', { name: 'Nothing found in this time' }).waitFor()
    await page.getByRole('button', { name: /Remove the condition -/ }).click()
    await found.getByText('1 record').waitFor()
  })

  it('suggest keys and values while one types, by the keyboard alone', async () => {
    await page.goto('/logs?dataset=payments')
    await page.getByRole('complementary', { name: 'Fields' }).getByText('region').waitFor()
    await page.getByRole('combobox', { name: 'Search' }).focus()
    await page.keyboard.type('charged regi')
    await page.getByRole('option', { name: /^region:/ }).waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Tab')
    await page.getByRole('option', { name: /^eu-north/ }).waitFor()
    await page.keyboard.type('north')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    assert.equal(await page.getByRole('combobox', { name: 'Search' }).inputValue(), 'charged region:eu-north ')
    await page.keyboard.press('Enter')
    await page.waitForURL(/q=charged\+region%3Aeu-north/)
    await rows.getByRole('button').first().waitFor()
  })

  it('are narrowed by severity, kind and the values of a field', async () => {
    await page.goto('/logs?dataset=payments')
    await page.getByRole('button', { name: 'error', exact: true }).click()
    await found.getByText('1 record').waitFor()
    await page.getByRole('button', { name: 'error', exact: true }).click()
    await page.getByRole('button', { name: 'Spans' }).click()
    await rows
      .getByRole('button', { name: /POST api.cards.example/ })
      .first()
      .waitFor()
    const fields = page.getByRole('complementary', { name: 'Fields' })
    await fields.getByText('status.code').click()
    await fields.getByRole('link', { name: 'error', exact: true }).click()
    await found.getByText('2 records').waitFor()
    assert.match(page.url(), /signal=trace/)
    assert.match(page.url(), /where=status.code%3A%22error%22/)
  })

  it('are chosen by a drag over the histogram', async () => {
    await page.goto('/logs?dataset=payments')
    const bars = page.getByRole('img', { name: /^Records by time, \d+ in all/ })
    const over = bars.locator('.u-over')
    await over.waitFor()
    let all = NaN
    await eventually(async () => (all = Number(/\d+/.exec((await found.textContent()) ?? '')?.[0])) > 0)
    const { x, y, width } = (await over.boundingBox())!
    await page.mouse.move(x + width * 0.4, y + 30)
    await page.mouse.down()
    await page.mouse.move(x + width * 0.6, y + 30, { steps: 4 })
    await page.mouse.up()
    await page.waitForURL(/from=.*to=/)
    await eventually(async () => {
      const some = Number(/\d+/.exec((await found.textContent()) ?? '')?.[0])
      return some > 0 && some < all / 2
    })
    const { searchParams } = new URL(page.url())
    const [from, to] = ['from', 'to'].map((name) => Date.parse(searchParams.get(name)!))
    assert.ok(to! - from! >= 12 * 60_000 && to! - from! <= 16 * 60_000, `${from} ${to}`)
    await page.reload()
    await eventually(async () => Number(/\d+/.exec((await found.textContent()) ?? '')?.[0]) > 0)
    await page.getByRole('button', { name: 'Zoom out' }).click()
    await page.waitForURL((url) => Date.parse(url.searchParams.get('to')!) > to!)
  })

  it('say where the newest records are when the time has none', async () => {
    await sendLines('old', [lineAt(Date.parse('2024-02-03T04:05:06Z'), 'long ago')])
    await page.goto('/logs?dataset=old')
    await page.getByRole('link', { name: 'go there' }).click()
    await rows.getByRole('button', { name: /long ago/ }).waitFor()
    await page.getByLabel('Time', { exact: true }).selectOption('all')
    await page.waitForURL(/range=all/)
    await rows.getByRole('button', { name: /3 Feb.*long ago/ }).waitFor()
  })

  it('lead to their trace, a waterfall over all services, and to its log records by time', async () => {
    await page.goto('/logs?dataset=payments&q=refused+signal%3Alog')
    await rows.getByRole('button').first().click()
    await detail.getByRole('link', { name: 'Show the trace' }).click()
    await page.getByRole('heading', { name: 'POST /cart/checkout' }).waitFor()
    assert.match(page.url(), new RegExp(`/traces/${refusedTrace}\\?span=`))
    const spans = page.getByRole('list', { name: 'Spans by time' })
    assert.equal(await spans.getByRole('listitem').count(), 7)
    assert.equal(await spans.getByText('error', { exact: true }).count(), 4)
    for (const service of ['web', 'checkout', 'inventory', 'payments']) {
      await page.getByRole('link', { name: service, exact: true }).waitFor()
    }
    await detail.getByText('Duration').waitFor() // the duration of the span that wrote the record
    await spans.getByRole('button', { name: 'payments POST api.cards.example' }).click()
    await detail.getByText('the issuer refused the card').waitFor()
    await spans.getByRole('button', { name: /spans below PlaceOrder/ }).click()
    await eventually(async () => (await spans.getByRole('listitem').count()) === 2)
    await page.reload() // the address keeps which spans are folded
    await detail.getByText('the issuer refused the card').waitFor()
    assert.equal(await spans.getByRole('listitem').count(), 2)

    await page.getByRole('link', { name: /^Log records/ }).click()
    const lines = page.getByRole('list', { name: 'Log records by time' })
    const texts = await lines.getByRole('button').allTextContents()
    assert.ok(texts.findIndex((text) => text.includes('payments')) < texts.findIndex((text) => text.includes('402 in')))
    await lines.getByRole('button', { name: /402 in/ }).click()
    await page.reload()
    await detail.getByText('error.type').waitFor()
    await page.goto('/logs?dataset=old')
    await page.getByRole('combobox', { name: 'Search' }).fill(refusedTrace)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'POST /cart/checkout' }).waitFor()
  })

  it('are copied as JSON, and gone through by keys', async () => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.goto('/logs?dataset=payments&signal=log')
    await rows.getByRole('button').first().waitFor()
    await page.keyboard.press('j')
    await detail.getByRole('button', { name: 'Copy as JSON' }).click()
    await detail.getByText('Copied').waitFor()
    const { record_id: first } = JSON.parse(await page.evaluate<string>('navigator.clipboard.readText()')) as {
      record_id: string
    }
    assert.equal(new URL(page.url()).searchParams.get('record'), first)
    await page.keyboard.press('j')
    await page.waitForURL((url) => ![null, first].includes(url.searchParams.get('record')))
    await page.keyboard.press('k')
    await page.waitForURL((url) => url.searchParams.get('record') === first)
    await page.keyboard.press('Escape')
    await detail.waitFor({ state: 'detached' })
  })

  it('say in words why a search or a trace is refused', async () => {
    await page.goto('/logs?dataset=payments&q=%28refused')
    const refusal = page.getByRole('alert').first()
    await refusal.getByText(/this \( is not closed \(column 1\)/).waitFor()
    await refusal.getByText('invalid_query').waitFor()
    await page.goto(`/traces/${'0'.repeat(31)}1`)
    await page.getByRole('alert').getByText('trace_not_found').waitFor()
  })

  it('are shown as text whatever they are', async () => {
    const more = { attributes: [attribute(HOSTILE, HOSTILE)], eventName: HOSTILE }
    await sendLines(HOSTILE, [lineAt(Date.now(), HOSTILE, more)])
    await page.goto(`/logs?dataset=${encodeURIComponent(HOSTILE)}`)
    await rows.getByText(HOSTILE).waitFor()
    await rows.getByRole('button').first().click()
    await detail.getByLabel('Body').getByText(HOSTILE).waitFor()
    await detail
      .getByRole('link', { name: /^Only records with/ })
      .first()
      .click()
    await found.getByText('1 record').waitFor()
    assert.equal(await page.locator('img[src="x"]').count(), 0)
    assert.deepEqual(visitor.complaints, [])
  })

  it('come into the tail when they are stored, stand still below the pointer, and none is lost with the connection', async () => {
    await page.goto('/logs?dataset=web')
    await rows.getByRole('button').first().waitFor()
    await sendLines('web', [lineAt(Date.now(), 'the one before')])
    await page.getByRole('button', { name: 'Live' }).click()
    await live.getByText('the one before').waitFor()
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor() // the tail begins with its connection
    assert.match(page.url(), /live=1/)
    await page.mouse.move(10, 10)
    await sendLines('web', [lineAt(Date.now(), 'the first one')])
    await live.getByText('the first one').waitFor()

    await live.hover()
    await sendLines('web', [lineAt(Date.now(), 'the second one')])
    await page.getByText(/1 new, shown when the pointer leaves/).waitFor()
    assert.equal(await live.getByText('the second one').count(), 0)
    await page.mouse.move(10, 10)
    await live.getByText('the second one').waitFor()

    const { target } = proxy
    proxy.target = null
    proxy.cut()
    await page.getByText('Connecting…').waitFor()
    await sendLines('web', [lineAt(Date.now(), 'the third one')])
    proxy.target = target
    await live.getByText('the third one').waitFor()
    for (const which of ['first', 'second', 'third']) {
      assert.equal(await live.getByText(`the ${which} one`).count(), 1)
    }
    await page.reload()
    await live.getByText('the third one').waitFor()
  })

  it('say that the store is away, and go on when it is back', async () => {
    const { target } = proxy
    proxy.target = null
    proxy.cut()
    await page.goto('/logs?dataset=payments')
    await page
      .getByRole('alert')
      .first()
      .getByText(/does not answer/)
      .waitFor()
    proxy.target = target
    await rows.getByRole('button').first().waitFor()
  })

  it('scroll through a hundred thousand rows, of which only those in sight exist', async () => {
    const startMs = Date.now() - 200_000
    /** Processor time of the browser, in ms, when the wheel scrolls up from the last of `count` loaded rows. */
    const scrolled = async (dataset: string, count: number): Promise<number> => {
      for (let at = 0; at < count; at += ROWS_AT_ONCE) {
        const lines = Array.from({ length: ROWS_AT_ONCE }, (_, more) =>
          lineAt(startMs + at + more, `line ${at + more}`),
        )
        await sendLines(dataset, lines)
      }
      await page.goto(`/logs?dataset=${dataset}&order=oldest`)
      await found.getByText(`${count.toLocaleString('en')} records`).waitFor()
      await rows.getByText('line 0', { exact: true }).waitFor()
      await page.evaluate(toTheEnd(`line ${count - 1}`))
      await rows.getByText(`line ${count - 1}`, { exact: true }).waitFor()
      assert.ok((await rows.getByRole('listitem').count()) < 100)
      await page.getByRole('region', { name: 'Records found' }).hover()
      const before = await visitor.cpuMs()
      for (let turn = 0; turn < 60; turn++) await page.mouse.wheel(0, -700)
      return (await visitor.cpuMs()) - before
    }
    const few = await scrolled('few', ROWS_AT_ONCE)
    const many = await scrolled('many', 20 * ROWS_AT_ONCE)
    assert.ok(many < 2 * few, `${many} and ${few} ms`) // equal, except for noise
  })
})

const PAGES = [
  ['/logs?dataset=payments', /Logs and traces/],
  ['/logs?dataset=payments&severity=error&range=all&where=region%3A%22eu-north%22', /Logs and traces/],
  ['/logs?dataset=payments&from=2024-02-03T04:05:06Z&to=2024-02-03T05:05:06Z', /Logs and traces/],
  ['/logs?dataset=payments&live=1', /Logs and traces/],
  [`/traces/${refusedTrace}`, /POST .cart.checkout/],
  [`/traces/${refusedTrace}?tab=logs`, /POST .cart.checkout/],
] as const

it('all pages about logs can be reloaded, and axe finds nothing wrong with them in either theme', async () => {
  const stored = await page.evaluate<string>('JSON.stringify(sessionStorage)')
  const themed = await Visitor.open(browser, server.at('console'))
  await themed.page.goto('/logs')
  await themed.page.getByLabel('Tenant').waitFor()
  assert.deepEqual(await themed.violations(), [], 'signed out')
  await themed.page.evaluate(`Object.assign(sessionStorage, ${stored})`)
  for (const [path, name] of PAGES) {
    await themed.page.goto(path)
    const heading = themed.page.getByRole('heading', { name }).first()
    await heading.waitFor()
    await eventually(async () => (await themed.page.getByText('Loading…').count()) === 0)
    if (path.includes('/traces/')) await themed.page.locator('.list').getByRole('button').last().click()
    assert.deepEqual(await themed.violations(), [], path)
    await themed.page.reload()
    await heading.waitFor()
  }
  assert.deepEqual(themed.complaints, [])
  await themed.close()
})

it('the page begins without much work: its modules, the overview and the first answers take less than a second', async () => {
  const newcomer = await Visitor.open(browser, server.at('console'))
  await newcomer.page.goto('/') // starts the process of the tab
  const before = await newcomer.cpuMs()
  await newcomer.page.reload()
  await newcomer.page.getByLabel('Tenant').waitFor()
  assert.ok((await newcomer.cpuMs()) - before < 1000)
  await newcomer.close()
})

it('the pages about logs ask nobody but the console, and bring no credential into an address', () => {
  assert.deepEqual([...visitor.hosts], [new URL(server.at('console')).host])
  assert.ok(visitor.asked.every((address) => !address.includes(TOKEN)))
  assert.ok(!server.stderr.includes(TOKEN) && !server.stdout.includes(TOKEN))
})
