/** Issue "The console", 6: the first load of a page in a browser that has never seen it. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { ConsoleServer, Visitor, startBrowser } from '../support/console.ts'
import { eventually } from '../support/waiting.ts'

const server = await ConsoleServer.start()
const browser = await startBrowser()
after(async () => {
  await browser.close()
  await server.kill()
})

/** By address: the link in the navigation that is marked as current there. */
const PAGES = {
  '/': 'Overview',
  '/logs': 'Logs',
  '/traces/00000000000000000000000000000abc': 'Logs',
  '/objects': 'Objects',
  '/streams': 'Streams',
  '/audit': 'Streams',
} as const

const isAsset = (address: string): boolean => address.includes('/assets/')

describe('a browser that sees the console for the first time', () => {
  for (const [path, title] of Object.entries(PAGES)) {
    it(`works less than half a second until ${path} can be used, and waits for no module that another one names`, async () => {
      const newcomer = await Visitor.open(browser, server.at('console'))
      const { page } = newcomer
      await page.goto('about:blank') // the start of the browser does not count as the page's work
      await page.addInitScript('globalThis.requestIdleCallback = () => {}') // the page loads no other pages in advance
      const before = await newcomer.cpuMs()
      const index = await (await page.goto(path))!.text()
      await page.getByRole('link', { name: title, exact: true }).and(page.locator('[aria-current=page]')).waitFor()
      await page.getByRole('heading').first().waitFor()
      assert.ok((await newcomer.cpuMs()) - before < 500)
      const late = newcomer.asked.filter((address) => isAsset(address) && !index.includes(new URL(address).pathname))
      assert.deepEqual(late, [])
      assert.deepEqual(newcomer.complaints, [])
      await newcomer.close()
    })
  }

  it('has every page before it is asked for, so that it can be left for another one without waiting', async () => {
    const newcomer = await Visitor.open(browser, server.at('console'))
    await newcomer.page.goto('/')
    const has = (name: string): boolean => newcomer.asked.some((address) => isAsset(address) && address.includes(name))
    await eventually(() => ['logs-page', 'trace-page', 'bucket-page', 'group-page', 'audit-page'].every(has))
    await newcomer.close()
  })

  it('says so when a page cannot be loaded, and loads it again', async () => {
    const newcomer = await Visitor.open(browser, server.at('console'))
    const { page } = newcomer
    await page.route(/streams-page/, (route) => route.abort())
    await page.goto('/')
    await page.getByRole('link', { name: 'Streams', exact: true }).click()
    await page.getByText('This page could not be loaded').waitFor()
    await page.unroute(/streams-page/)
    await page.getByRole('button', { name: 'Load it again' }).click()
    await page.getByRole('heading', { name: 'Streams' }).waitFor()
    assert.equal(new URL(page.url()).pathname, '/streams')
    await newcomer.close()
  })

  it('may be of a locale that Intl does not know', async () => {
    const newcomer = await Visitor.open(browser, server.at('console'))
    const { page } = newcomer
    const posix = "Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix' })" // Chromium's language, if LANG is C
    await page.addInitScript(posix)
    for (const [path, title] of Object.entries(PAGES)) {
      await page.goto(path)
      await page.getByRole('link', { name: title, exact: true }).and(page.locator('[aria-current=page]')).waitFor()
      await page.getByRole('heading').first().waitFor()
    }
    assert.deepEqual(newcomer.complaints, [])
    await newcomer.close()
  })
})
