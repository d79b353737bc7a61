/** Issue "The console", 6: how pages look: nothing stands outside of the window, and nothing is said twice. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { Scene } from '../../scripts/screenshots/scene.ts'
import { ConsoleServer, Visitor, startBrowser } from '../support/console.ts'
import { eventually } from '../support/waiting.ts'

const server = await ConsoleServer.start()
const browser = await startBrowser()
const visitor = await Visitor.open(browser, server.at('console'))
const { page } = visitor
after(async () => {
  await browser.close()
  await server.kill()
})

/** A large laptop, a small one, half of a screen. */
const WIDTHS = [1366, 1024, 480]

/** How far the page reaches beyond the window, in pixels, when charts have got its size. */
const OVERHANG = `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() =>
  resolve(document.documentElement.scrollWidth - innerWidth))))`

/** Texts of charts are in no element. */
const KEEP_TEXTS = `globalThis.drawn = []
  const { fillText } = CanvasRenderingContext2D.prototype
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    drawn.push(text)
    return fillText.call(this, text, ...rest)
  }`

async function fits(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    await page.goto(path)
    await page.getByRole('heading').first().waitFor()
    await page.getByText('Loading…').first().waitFor({ state: 'detached' })
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 768 })
      assert.equal(await page.evaluate(OVERHANG), 0, `${path} at ${width} pixels`)
    }
  }
}

describe('pages of the console', () => {
  it('are no wider than the window when there is nothing yet', () =>
    fits(['/', '/logs', '/objects', '/streams', '/audit', '/streams/none', '/objects/none']))

  const scene = new Scene(server)

  it('are no wider than the window when there is much', async () => {
    await scene.fill()
    await fits(Object.values(scene.pages))
  })

  it('say how many objects are in each bucket, and how large they are', async () => {
    await page.goto('/objects')
    const row = page.getByRole('row', { name: /invoices/ })
    await row.getByRole('cell', { name: '12', exact: true }).waitFor()
    await row.getByTitle(/^\d+ bytes$/).waitFor()
  })

  it('say once why a search is refused, with the id of the request', async () => {
    await page.setViewportSize({ width: 1366, height: 768 })
    await page.goto('/logs?dataset=web&q=%28refused')
    await page.getByRole('alert').first().waitFor()
    await page.getByText('Loading…').first().waitFor({ state: 'detached' })
    assert.equal(await page.getByText(/this \( is not closed/).count(), 1)
    await page
      .getByRole('alert')
      .getByText(/^req-[0-9a-f]{24}$/)
      .waitFor() // which the log of the store has as well
  })

  it('show the time below a chart that has just begun', async () => {
    await page.addInitScript(KEEP_TEXTS)
    await page.goto('/')
    const times: string[] = []
    await eventually(async () => {
      times.push(...(await page.evaluate<string[]>('drawn')).filter((text) => text.includes(':')))
      return times.length > 0
    })
    assert.ok(new Set(times).size > 1, times.join())
    assert.deepEqual(visitor.complaints, [])
  })
})
