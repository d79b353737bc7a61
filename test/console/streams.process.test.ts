/** Issue "The console", 2 and 5: what a visitor sees of the services in a browser, and does with streams. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import type { StreamReply } from '../../src/broker/wire/record-answers.ts'
import { BrokerServer } from '../support/broker.ts'
import { ConsoleServer, SwitchableProxy, Visitor, startBrowser } from '../support/console.ts'
import { eventually } from '../support/waiting.ts'
import { OVERVIEW_METRICS, grown, valueOf } from './overview-metrics.ts'

const HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>'

const broker = await BrokerServer.start({ env: { MQ_METRICS_EXPOSURE: 'http' } })
const proxy = await SwitchableProxy.open(broker.readyLine.http)
const server = await ConsoleServer.start({ TRILOG_CONSOLE_BROKER_URL: proxy.url }, ['logstore', 'objectstore'])
const browser = await startBrowser()
const visitor = await Visitor.open(browser, server.at('console'))
const { page } = visitor
after(async () => {
  await browser.close()
  await server.kill()
  await broker.kill()
})

const post = async (path: string, body: object): Promise<unknown> => (await broker.request('POST', path, body)).json()

const stream = async (name: string): Promise<StreamReply> =>
  (await broker.request('GET', `/v1/streams/${name}`)).json() as StreamReply // the answer of this route

/** The broker is in another process, so the page asks for credentials. */
await page.goto('/streams')
await page.getByRole('button', { name: 'Go on without credentials' }).click()

describe('streams in the console', () => {
  it('begin with the one command that makes a stream, or a form that does', async () => {
    await page.getByRole('heading', { name: 'No stream yet' }).waitFor()
    await page.getByText(/^curl -X PUT http:\S+\/v1\/streams\/orders$/).waitFor()
    await page.getByRole('button', { name: 'Create stream' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('orders')
    await dialog.getByLabel('Attempts', { exact: true }).fill('3')
    await dialog.getByLabel('Then copy it to the stream').fill('orders.dead')
    await dialog.getByRole('button', { name: 'Create stream' }).click()
    await page.getByRole('heading', { name: 'orders', exact: true }).waitFor()
    await broker.request('PUT', '/v1/streams/orders.dead')
  })

  it('say in words why a stream cannot be made', async () => {
    await page.goto('/streams')
    await page.getByRole('heading', { name: /Streams/ }).waitFor()
    await page.keyboard.press('n')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('orders')
    await dialog.getByRole('button', { name: 'Create stream' }).click()
    const refusal = dialog.getByRole('alert')
    await refusal.getByText('stream_already_exists').waitFor()
    assert.match((await refusal.textContent())!, /request req-/)
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
  })

  it('publish what is typed, and show it as text whatever it is', async () => {
    await page.goto('/streams/orders')
    await page.getByRole('button', { name: 'Publish', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Payload', { exact: true }).fill(HOSTILE)
    await dialog.getByLabel('Key', { exact: true }).fill(HOSTILE)
    await dialog.getByLabel('Headers').fill(`origin: ${HOSTILE}`)
    await dialog.getByRole('button', { name: 'Publish' }).click()
    await dialog.getByText('Stored at offset 0.').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    const rows = page.getByRole('list', { name: 'Records of orders' })
    await rows.getByText(HOSTILE).first().waitFor()
    await rows.getByRole('button').click()
    const detail = page.getByRole('complementary', { name: 'Record 0' })
    assert.equal(await detail.getByLabel('Payload', { exact: true }).textContent(), HOSTILE)
    await detail.getByRole('button', { name: 'Hex' }).click()
    await detail.getByText('3c 69 6d 67').waitFor()
    assert.match(page.url(), /record=0.*show=hex|show=hex.*record=0/)
    assert.deepEqual(visitor.complaints, [])
    assert.equal(await page.locator('img[src="x"]').count(), 0)
  })

  it('show a lease that somebody holds, dead-letter its record, and publish that again', async () => {
    await post('/v1/streams/orders/consumer-groups/workers/claims', { lease_timeout_millis: 3_600_000 })
    await page.goto('/streams/orders?tab=groups')
    const waits = page
      .getByRole('row', { name: /workers/ })
      .getByRole('cell')
      .nth(4)
    assert.match((await waits.textContent())!, /^[\d.]+ (ms|s|min)/)
    await page.getByRole('link', { name: 'workers' }).click()
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Release the record at 0' }).click()
    await dialog.getByRole('button', { name: 'Release' }).click()
    await page.getByText('No record is leased now.').waitFor()

    await post('/v1/streams/orders/consumer-groups/workers/claims', { lease_timeout_millis: 3_600_000 })
    await page.getByText('active').waitFor()
    await page.getByRole('button', { name: 'Dead-letter the record at 0' }).click()
    assert.equal(await dialog.getByLabel('To the stream').inputValue(), 'orders.dead')
    await dialog.getByLabel('Reason').fill('no such customer')
    await dialog.getByRole('button', { name: 'Dead-letter' }).click()
    await page.getByText('No record is leased now.').waitFor()
    await page.goto('/streams/orders?tab=groups')
    assert.equal(await waits.textContent(), '–') // the group has finished every record

    await page.goto('/streams/orders.dead?record=0')
    await page.getByText('no such customer').first().waitFor()
    await page.getByRole('button', { name: 'Publish again to orders' }).click()
    await dialog.getByLabel('Reason').fill('there is one now')
    await dialog.getByRole('button', { name: 'Publish again' }).click()
    await dialog.getByRole('status').getByText('again').waitFor()
    assert.equal((await stream('orders')).next_offset, 2)
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Publish again to orders' }).click()
    await dialog.getByLabel('Reason').fill('twice')
    await dialog.getByRole('button', { name: 'Publish again' }).click()
    await dialog.getByRole('alert').getByText('not_redriven').waitFor()
    assert.match((await dialog.getByRole('alert').textContent())!, /request req-/) // the answer was 200, but has a refusal in it
  })

  it('seek a group, and commit, rewind and delete cursors, and leave a trace of it', async () => {
    await page.goto('/streams/orders/groups/workers?ended=1')
    await page.getByRole('checkbox', { name: 'with those that ended', checked: true }).waitFor()
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Commit a cursor' }).click()
    await dialog.getByLabel('Name').fill('report')
    await dialog.getByRole('button', { name: 'Commit' }).click()
    await page.getByRole('row', { name: /report 2 0/ }).waitFor()
    await page.getByRole('button', { name: 'Rewind report' }).click()
    await dialog.getByLabel('Offset').fill('1')
    await dialog.getByLabel('Reason').fill('wrong report')
    await dialog.getByRole('button', { name: 'Rewind' }).click()
    await page.getByRole('row', { name: /report 1 1/ }).waitFor()
    await page.getByRole('button', { name: 'Delete the cursor report' }).click()
    await dialog.getByRole('button', { name: 'Delete cursor' }).click()
    await page.getByText('The group has no cursors.').waitFor()

    const progress = async (): Promise<unknown> =>
      (await broker.request('GET', '/v1/streams/orders/consumer-groups/workers')).json()
    const seek = async (target: string): Promise<void> => {
      await dialog.getByLabel('Seek to').selectOption(target)
      await dialog.getByLabel('Reason').fill(`by ${target}`)
      await dialog.getByRole('button', { name: 'Seek' }).click()
      await dialog.waitFor({ state: 'detached' })
    }
    const figures = page.locator('.figures')
    await page.getByRole('button', { name: 'Seek' }).click()
    assert.equal(await dialog.getByLabel('Offset').inputValue(), '1') // the first offset that the group has not finished
    await dialog.getByLabel('Seek to').selectOption('time')
    const filled = await dialog.getByLabel('Time').inputValue()
    const { records } = (await (await broker.request('GET', '/v1/streams/orders/records?start_offset=1')).json()) as {
      records: readonly { ingest_time_ms: number }[]
    } // the answer of this route
    assert.equal(await page.evaluate(`Date.parse(${JSON.stringify(filled)})`), records[0]!.ingest_time_ms)
    await seek('latest')
    assert.deepEqual(await progress(), { ...((await progress()) as object), progress_offset: 1, lag_messages: 1 })
    await page.getByRole('button', { name: 'Seek' }).click()
    await dialog.getByLabel('Offset').fill('0')
    await seek('offset')
    assert.deepEqual(await progress(), { ...((await progress()) as object), progress_offset: 0, lag_messages: 2 })
    await eventually(async () => (await figures.textContent())!.includes('Lag2'))
    await page.getByRole('button', { name: 'Seek' }).click()
    await seek('time')
    assert.deepEqual(await progress(), { ...((await progress()) as object), progress_offset: 0 })

    await page.goto('/audit')
    await page.getByRole('cell', { name: /wrong report/ }).waitFor()
    await page.getByLabel('Kind').selectOption('group_sought')
    await page.getByRole('cell', { name: /by latest/ }).waitFor()
    assert.equal(await page.getByRole('row').count(), 4)
    assert.match(page.url(), /kind=group_sought/)
  })

  it('scroll through a hundred thousand records, of which only those in sight exist', async () => {
    await broker.request('PUT', '/v1/streams/many')
    for (let batch = 0; batch < 100; batch++) {
      const records = Array.from({ length: 1000 }, (_, at) => ({
        message_id: `${batch}-${at}`,
        payload: `record ${batch * 1000 + at}`,
      }))
      await post('/v1/streams/many/records/batch', { records })
    }
    await page.goto('/streams/many')
    await page.getByText('record 99999', { exact: true }).waitFor()
    const { target } = proxy
    proxy.target = null
    await page.getByRole('region', { name: 'Records of many' }).focus()
    await page.keyboard.press('End')
    const records = page.getByRole('region', { name: 'Records', exact: true })
    await records
      .getByRole('alert')
      .getByText(/does not answer/)
      .waitFor()
    proxy.target = target
    await page.getByText('record 0', { exact: true }).waitFor() // without scrolling again
    await records.getByRole('alert').waitFor({ state: 'detached' })
    assert.ok((await page.getByRole('listitem').count()) < 200)
    await page.getByLabel('From offset').fill('50000')
    await page.getByRole('button', { name: 'Go', exact: true }).click()
    await page.getByText('record 50000', { exact: true }).waitFor()
  })

  it('show the newest record also when as many went as came', async () => {
    await broker.request('PUT', '/v1/streams/moving')
    await post('/v1/streams/moving/records', { message_id: 'old', payload: 'the oldest' })
    await page.goto('/streams/moving')
    await page.getByText('the oldest', { exact: true }).waitFor()
    const { target } = proxy
    proxy.target = null // so that the page learns of both at once
    await post('/v1/streams/moving/records', { message_id: 'new', payload: 'the newest' })
    await post('/v1/streams/moving/purge', { offset: 1 })
    proxy.target = target
    await page.getByText('the newest', { exact: true }).waitFor()
    await page.getByText('the oldest', { exact: true }).waitFor({ state: 'detached' })
  })

  it('stand still while one of them is open, and say how many have come', async () => {
    const rows = page.getByRole('list', { name: 'Records of moving' })
    await rows.getByRole('button', { name: /the newest/ }).click()
    await page.getByRole('complementary', { name: 'Record 1' }).waitFor()
    await post('/v1/streams/moving/records', { message_id: 'newer', payload: 'a newer one' })
    await page.getByRole('button', { name: '1 new' }).waitFor()
    assert.equal(await rows.getByRole('listitem').count(), 1)
    await page.getByRole('button', { name: '1 new' }).click()
    await rows.getByText('a newer one', { exact: true }).waitFor()
    assert.equal(await page.getByRole('complementary').count(), 0)
  })

  it('show all records also when they are too large for one answer', async () => {
    await broker.request('PUT', '/v1/streams/large')
    for (const id of ['0', '1', '2']) {
      await post('/v1/streams/large/records', { message_id: id, payload: `larger ${id} ${'ö'.repeat(400_000)}` })
    }
    await page.goto('/streams/large')
    for (const id of ['0', '1', '2']) await page.getByText(new RegExp(`^larger ${id} ö`)).waitFor()
  })

  it('change what a stream keeps, purge it, and delete it when its name is typed', async () => {
    await page.goto('/streams/many?tab=settings')
    const configuration = page.getByRole('region', { name: 'Configuration' })
    await configuration.getByLabel('Oldest record, in hours').fill('24.5')
    await configuration.getByLabel('An answer to a publish means').selectOption('memory')
    await configuration.getByLabel('Then copy it to the stream').fill('orders.dead')
    await configuration.getByRole('button', { name: 'Save' }).click()
    await configuration.getByRole('alert').getByText('Give the number of attempts').waitFor()
    await configuration.getByLabel('Attempts', { exact: true }).fill('5')
    await configuration.getByLabel('A lease that runs out counts as a failure').check()
    await configuration.getByRole('button', { name: 'Save' }).click()
    await configuration.getByText('Changed.').waitFor()
    const { retention, failure_policy: policy, default_durability: durability } = await stream('many')
    assert.deepEqual([retention.max_age_millis, durability], [88_200_000, 'memory'])
    assert.deepEqual([policy?.max_attempts, policy?.apply_on_expiry], [5, true])
    await page.reload() // the form shows what is stored, and saving it changes nothing
    await configuration.getByRole('button', { name: 'Save' }).click()
    await configuration.getByText('Changed.').waitFor()
    assert.deepEqual(
      await stream('many'),
      Object.assign(await stream('many'), { retention, failure_policy: policy, default_durability: durability }),
    )

    const letters = page.getByRole('region', { name: 'Dead letters' })
    await letters.getByLabel('Reason').fill('all')
    await letters.getByRole('button', { name: 'Publish all again' }).click()
    await letters.getByText('0 are in their source again').waitFor()

    const purge = page.getByRole('region', { name: 'Purge' })
    assert.equal(await purge.getByLabel('Below the offset').inputValue(), '100000')
    await purge.getByRole('button', { name: 'Purge' }).click()
    await purge.getByText('The records below 100000 are gone.').waitFor()

    const removal = page.getByRole('region', { name: 'Delete' })
    await removal.getByLabel('Type many to confirm').fill('man')
    await removal.getByRole('button', { name: 'Delete stream' }).click()
    await removal.getByRole('alert').waitFor()
    await removal.getByLabel('Type many to confirm').fill('many')
    await removal.getByRole('button', { name: 'Delete stream' }).click()
    await page.getByRole('heading', { name: /Streams/ }).waitFor()
    assert.equal(await page.getByRole('link', { name: 'many' }).count(), 0)
  })

  it('are reached by keys alone, which a sheet lists', async () => {
    await page.goto('/')
    await page.getByRole('region', { name: 'Broker' }).waitFor()
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('g')
    await page.keyboard.press('s')
    await page.getByRole('heading', { name: /Streams/ }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('dead')
    await page.getByRole('link', { name: 'orders', exact: true }).waitFor({ state: 'detached' })
    assert.match(page.url(), /q=dead/)
  })

  it('say that the broker is away, and go on when it is back', async () => {
    await page.goto('/streams')
    await page.getByRole('link', { name: 'orders', exact: true }).waitFor()
    const { target } = proxy
    proxy.target = null
    await page
      .getByRole('alert')
      .getByText(/does not answer/)
      .waitFor()
    await page.getByRole('link', { name: 'orders', exact: true }).waitFor() // what the page knew is still shown
    await page.goto('/')
    await page.getByRole('region', { name: 'Broker' }).getByText('Away').waitFor()
    await page.getByText(/Broker does not report its health/).waitFor()
    proxy.target = target
    await page.getByRole('region', { name: 'Broker' }).getByText('Healthy').waitFor()
  })

  it('are on an overview with the other services, which shows what their metrics say', async () => {
    const known = new Map<string, string>()
    let turn = 0
    await page.route(/\/metrics$/, async (route) => {
      const { pathname } = new URL(route.request().url())
      if (!known.has(pathname)) known.set(pathname, await (await route.fetch()).text())
      turn += 1
      await route.fulfill({ body: grown(known.get(pathname)!, 1000 * turn) })
    })
    await page.goto('/')
    for (const [name, path, facts, refusals] of OVERVIEW_METRICS) {
      const card = page.getByRole('region', { name })
      await card.getByText('Healthy').waitFor()
      await card.getByRole('img').waitFor()
      const text = known.get(path)!
      for (const [title, metric] of facts) {
        const expected = valueOf(text, metric)
        const shown = card.locator('dl > div').filter({ has: page.getByText(title, { exact: true }) })
        const digits = Number((await shown.locator('dd').getAttribute('title'))!.replaceAll(/\D/g, ''))
        const isRight = /_(total|count)$/.test(metric)
          ? digits > expected && (digits - expected) % 1000 === 0
          : digits === expected
        assert.ok(isRight, `${name}, ${title}: ${digits} and not ${expected}`)
      }
      await card.getByText('1 s', { exact: true }).waitFor() // time of a sync: seconds and syncs grow alike
      await card.getByTitle('1 s', { exact: true }).waitFor()
      await card.getByTitle(/^since \d/).waitFor()
      await card.getByText(/^\d+\.\d+\.\d+$/).waitFor() // the version
      await card
        .getByText(/^[1-9][\d.,]*K?\/s$/)
        .first()
        .waitFor()
      if (refusals !== null) await card.getByRole('listitem').getByText(refusals).waitFor()
    }
    await page.unrouteAll()
    assert.deepEqual([...visitor.hosts], [new URL(server.at('console')).host])
    assert.deepEqual(visitor.complaints, [])
  })

  it('say on top of the overview what is wrong with them, and what to do', async () => {
    let [status, reasons] = ['degraded', [{ kind: 'damage', reason: 'a range is damaged', action: 'Acknowledge it.' }]]
    await page.route(/broker\/readyz$/, (route) =>
      route.fulfill({ status: status === 'degraded' ? 200 : 503, json: { status, reasons } }),
    )
    await page.goto('/')
    const wrong = page.getByRole('list', { name: 'What is wrong with the broker' })
    await wrong.getByText('a range is damaged').waitFor()
    await wrong.getByText('Acknowledge it.').waitFor()
    const card = page.getByRole('region', { name: 'Broker' })
    await card.getByText('Degraded').waitFor()
    assert.ok((await wrong.boundingBox())!.y < (await card.boundingBox())!.y)
    reasons = [{ kind: 'recovering', reason: 'it reads what is stored', action: '' }]
    for (const [next, word] of [
      ['recovering', 'Starting'],
      ['draining', 'Stopping'],
      ['unavailable', 'Unavailable'],
    ] as const) {
      status = next
      await card.getByText(word).waitFor()
      await wrong.getByText('it reads what is stored').waitFor()
    }
    await page.unrouteAll()
    await card.getByText('Healthy').waitFor()
    await wrong.waitFor({ state: 'detached' })
    assert.deepEqual(visitor.complaints, [])
  })
})

const PAGES = [
  '/',
  '/streams',
  '/streams/orders?record=0',
  '/streams/orders?tab=groups',
  '/streams/orders?tab=settings',
  '/streams/orders/groups/workers',
  '/audit',
  '/nothing',
]

it('numbers and times are in the language of the visitor, with the exact value on hover', async () => {
  await broker.request('PUT', '/v1/streams/zählwerk')
  const records = Array.from({ length: 1234 }, (_, at) => ({ message_id: String(at), payload: 'x'.repeat(1000) }))
  await post('/v1/streams/z%C3%A4hlwerk/records/batch', { records: records.slice(0, 1000) })
  await post('/v1/streams/z%C3%A4hlwerk/records/batch', { records: records.slice(1000) })
  const visitor = await Visitor.open(browser, server.at('console'), 'light', 'de-DE')
  await visitor.page.goto('/streams')
  await visitor.page.getByRole('button', { name: 'Go on without credentials' }).click()
  const row = visitor.page.getByRole('row', { name: /zählwerk/ })
  await row.getByText('1.234', { exact: true }).first().waitFor()
  await row.getByText('1,18 MiB', { exact: true }).waitFor()
  await row.getByTitle('1.234.000 bytes').waitFor()
  const time = row.getByRole('time')
  assert.match((await time.textContent())!, /vor \d+|jetzt/)
  assert.match((await time.getAttribute('title'))!, /^\d\d\.\d\d\.\d{4}, \d\d:\d\d:\d\d · \d{4}-\d\d-\d\dT.*Z$/)
  await visitor.page.goto('/')
  await visitor.page
    .getByRole('region', { name: 'Broker' })
    .getByTitle(/^\d{1,3}(\.\d{3})+ bytes$/)
    .first()
    .waitFor()
  await visitor.close()
})

it('all pages about streams can be reloaded, and axe finds nothing wrong with them in either theme', async () => {
  await post('/v1/streams/orders/consumer-groups/workers/claims', { lease_timeout_millis: 3_600_000 })
  const themed = await Visitor.open(browser, server.at('console'))
  await themed.page.goto('/streams')
  await themed.page.getByRole('button', { name: 'Go on without credentials' }).waitFor()
  assert.deepEqual(await themed.violations(), [])
  await themed.page.getByRole('button', { name: 'Go on without credentials' }).click()
  for (const path of PAGES) {
    await themed.page.goto(path)
    await eventually(async () => (await themed.page.getByRole('status').getByText('Loading…').count()) === 0)
    const title = await themed.page.getByRole('heading').first().textContent()
    assert.deepEqual(await themed.violations(), [], path)
    await themed.page.reload()
    await themed.page.getByRole('heading', { name: title! }).first().waitFor()
  }
  await themed.page.goto('/streams/orders')
  await themed.page.getByRole('button', { name: 'Publish', exact: true }).click()
  assert.deepEqual(await themed.violations(), [], 'publishing')
  assert.deepEqual(themed.complaints, [])
  await themed.close()
})
