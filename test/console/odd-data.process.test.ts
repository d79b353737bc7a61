/** Issue "The console": what services send and visitors type may be odd. Pages show it, or say why not, and the rest of the console stays usable. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, it } from 'node:test'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import type { Route } from 'playwright-core'
import { ConsoleServer, Visitor, startBrowser } from '../support/console.ts'

const server = await ConsoleServer.start()
const browser = await startBrowser()
const visitor = await Visitor.open(browser, server.at('console'))
const { page } = visitor
after(async () => {
  await browser.close()
  await server.kill()
})

const detail = page.getByRole('complementary', { name: 'Record' })
const refusal = page.getByRole('alert').first()

async function send(url: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const answer = await fetch(url, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  })
  assert.ok(answer.ok, await answer.text())
}

const attribute = (key: string, value: string): object => ({ key, value: { stringValue: value } })

it('times of spans are read in every form that the log store takes', async () => {
  const nowMs = Date.now()
  const span = {
    traceId: '0123456789abcdef0123456789abcdef',
    spanId: '0123456789abcdef',
    name: 'with exponents',
    startTimeUnixNano: `${nowMs}e6`,
    endTimeUnixNano: `${nowMs + 250}000000.0`,
    events: [{ name: 'in between', timeUnixNano: `${nowMs}.1e6` }],
  }
  const resource = { attributes: [attribute('tenant_id', 'local'), attribute('service.name', 'odd')] }
  await send(
    `${server.at('logstore')}/v1/otlp/traces`,
    { resourceSpans: [{ resource, scopeSpans: [{ spans: [span] }] }] },
    { 'x-logstore-tenant': 'local', authorization: 'Bearer local-dev-token' },
  )
  await page.goto('/logs?dataset=odd')
  await page.getByRole('button', { name: /with exponents.*250 ms/ }).click()
  await detail.getByText('250 ms').waitFor()
  const exact = `${new Date(nowMs).toISOString().slice(0, -1)}100000Z`
  await detail.getByRole('region', { name: 'Events' }).getByTitle(exact).waitFor()
  assert.deepEqual(visitor.complaints, [])
})

it('a record whose event time no date can have is shown', async () => {
  await fetch(`${server.at('broker')}/v1/streams/odd`, { method: 'PUT' })
  for (const ms of [8.64e15, 8.64e15 + 1, Number.MAX_SAFE_INTEGER])
    await send(`${server.at('broker')}/v1/streams/odd/records`, {
      message_id: `at ${ms}`,
      payload: 'later',
      event_time_ms: ms,
    })
  const record = (offset: number) => page.getByRole('complementary', { name: `Record ${offset}` })
  await page.goto('/streams/odd?record=0')
  await record(0).getByText('275760').waitFor()
  await page.goto('/streams/odd?record=1')
  await record(1).getByText('8,640,000,000,000,001 ms after 1970').waitFor()
  await page.keyboard.press('k')
  await record(2).getByText('9,007,199,254,740,991 ms after 1970').waitFor()
  assert.deepEqual(visitor.complaints, [])
})

it('an object is previewed whatever its encoding says, and however many headers it has', async () => {
  const bucket = `${server.at('objectstore')}/encoded`
  const put = async (key: string, body: Uint8Array, headers: Readonly<Record<string, string>>): Promise<void> => {
    const answer = await fetch(`${bucket}/${key}`, { method: 'PUT', body, headers })
    assert.equal(answer.status, 200, await answer.text())
  }
  await fetch(bucket, { method: 'PUT' })
  const noise = randomBytes(600_000).toString('hex')
  const many = 'x'.repeat(6000)
  const objects = [
    ['large', gzipSync(`begins ${noise}`), 'gzip', /^begins [0-9a-f]+$/],
    ['small', gzipSync('{"a":1}'), 'gzip', /^\{\n {2}"a": 1\n\}$/],
    ['wrong', Buffer.from('not of gzip'), 'gzip', /^not of gzip$/],
    ['brotli', brotliCompressSync('of brotli'), 'br', /^of brotli$/],
    ['wrong-brotli', Buffer.from('not of brotli'), 'br', /^not of brotli$/],
    ['unknown', Buffer.from('of its own'), 'own', /^of its own$/],
  ] as const
  for (const [key, body, encoding, shown] of objects) {
    const others = { 'cache-control': many, 'content-disposition': many, 'content-language': many }
    await put(key, body, { 'content-encoding': encoding, ...(key === 'unknown' && others) })
    await page.goto(`/objects/encoded?key=${key}`)
    assert.match((await page.getByLabel('Content', { exact: true }).textContent())!, shown)
    assert.equal(await page.getByText('Only the beginning is shown.').count(), key === 'large' ? 1 : 0)
  }
  assert.deepEqual(visitor.complaints, [])
})

it('the audit trail names streams as they are', async () => {
  await fetch(`${server.at('broker')}/v1/streams/with_lines_below`, { method: 'PUT' })
  await page.goto('/audit')
  await page.getByLabel('Stream', { exact: true }).selectOption({ label: 'with_lines_below' })
  await page.getByLabel('Kind', { exact: true }).selectOption({ label: 'stream created' })
  await page.getByRole('rowheader', { name: 'stream created' }).waitFor()
})

it('an address that has a stray % or two slashes leads to a page', async () => {
  await page.goto('/streams/%zz')
  await page.getByRole('heading', { name: '%zz' }).waitFor()
  await refusal.getByText('stream_not_found').waitFor()
  await page.goto('/objects/50%')
  await page.getByRole('heading', { name: '50%' }).waitFor()
  await page.goto(`${server.at('console')}//streams`)
  await page.getByRole('link', { name: 'odd' }).waitFor()
  await page.goto('/logs?dataset=odd&range=toString') // a range that the page does not know is the default one
  await page.getByRole('button', { name: /with exponents/ }).waitFor()
  assert.deepEqual(visitor.complaints, [])
})

it('a page that cannot be drawn says so, and the others are still reached', async () => {
  const odd = (route: Route): Promise<void> => route.fulfill({ json: { roots: 'none' } })
  await page.route('**/logstore/v1/traces/*', odd)
  await page.goto(`/traces/${'a'.repeat(32)}`)
  await refusal.getByText('This page cannot be shown.').waitFor()
  await page.getByRole('link', { name: 'Streams' }).click()
  await page.getByRole('link', { name: 'odd' }).waitFor()
  await page.goBack()
  await refusal.getByText('This page cannot be shown.').waitFor()
  await page.unroute('**/logstore/v1/traces/*', odd)
  await page.getByRole('button', { name: 'Load it again' }).click()
  await refusal.getByText('trace_not_found').waitFor()
  assert.ok(visitor.complaints.splice(0).every((each) => /\broots\b|undefined/.test(each)))
})

it('a program that is no service of trilog is told apart on the overview', async () => {
  await page.route('**/broker/readyz', (route) => route.fulfill({ json: { status: 'UP' } }))
  await page.goto('/')
  const wrong = page.getByRole('list', { name: 'What is wrong with the broker' })
  await wrong.getByText('Its answer is not that of a service of trilog.').waitFor()
  await page.getByRole('region', { name: 'Object store' }).getByText('Healthy').waitFor()
  assert.deepEqual(visitor.complaints, [])
})
