/** Issue "The console", 6: the layout of pages: nothing is outside of the window, and nothing is shown twice. */
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

/** Widths of a large laptop, a small one, and half of a screen. */
const WIDTHS = [1366, 1024, 480]

/** Pixels of the page beyond the window, once charts have taken their size. */
const OVERHANG = `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() =>
  resolve(document.documentElement.scrollWidth - innerWidth))))`

/** By page: the first words of buttons that open a dialog. */
const DIALOGS = [
  ['/streams', ['Keyboard shortcuts', 'Create stream']],
  ['/streams/orders', ['Publish']],
  [
    '/streams/orders/groups/billing',
    ['Seek', 'Delete group', 'Commit a cursor', 'Release', 'Dead-letter', 'Rewind', 'Delete the cursor'],
  ],
  ['/streams/orders.dead?record=0', ['Publish again to orders']],
  ['/objects', ['Create bucket', 'Delete the bucket']],
  ['/objects/invoices?prefix=2026%2F&key=2026%2F11.json', ['Link', 'Tags', 'Delete']],
] as const

/** Keeps the texts of charts: these draw them, so no element has them. */
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

/** The HTML of controls that had no focus since the page was loaded. */
const UNREACHED = `(() => {
  if (globalThis.reached === undefined) {
    globalThis.reached = new Set()
    addEventListener('focusin', ({ target }) => reached.add(target), true)
  }
  const isVisible = (each) => each.checkVisibility({ visibilityProperty: true }) && each.getClientRects().length > 0
  return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
    .filter((each) => !each.disabled && each.ariaHidden !== 'true' && isVisible(each) && !reached.has(each))
    .filter((each) => each.tabIndex >= 0 || each.closest('[role=listitem]') === null)
    .map((each) => each.outerHTML.slice(0, 120))
})()`

/** Most presses of Tab. Some controls of browsers have several stops. */
const TABS_MAX = 300
const TABS_AT_ONCE = 15

describe('pages of the console', () => {
  const empty = ['/', '/logs', '/objects', '/streams', '/audit', '/streams/none', '/objects/none']

  it('are no wider than the window when there is nothing yet', () => fits(empty))

  it('have nothing that axe finds wrong when there is nothing yet', async () => {
    await page.setViewportSize({ width: 1366, height: 768 })
    for (const path of empty) {
      await page.goto(path)
      await page.getByRole('heading').first().waitFor()
      await page.getByText('Loading…').first().waitFor({ state: 'detached' })
      assert.deepEqual(await visitor.violations(), [], path)
    }
  })

  const scene = new Scene(server)

  it('are no wider than the window when there is much', async () => {
    await scene.fill()
    await fits(Object.values(scene.pages))
  })

  it('have dialogs that axe finds nothing wrong with, in both themes', async () => {
    await page.setViewportSize({ width: 1366, height: 768 })
    for (const [path, names] of DIALOGS) {
      await page.goto(path)
      for (const name of names) {
        await page
          .getByRole('button', { name: new RegExp(`^${name}`) })
          .first()
          .click()
        await page.getByRole('dialog').waitFor()
        assert.deepEqual(await visitor.violations('dialog'), [], `${path}: ${name}`)
        await page.keyboard.press('Escape')
        await page.getByRole('dialog').waitFor({ state: 'detached' })
      }
    }
  })

  it('have no control that Tab does not reach, and one row of each list, from where arrows go on', async () => {
    for (const path of ['/', ...Object.values(scene.pages)]) {
      await page.goto(path)
      await page.getByRole('heading').first().waitFor()
      await page.getByText('Loading…').first().waitFor({ state: 'detached' })
      let unreached = await page.evaluate<string[]>(UNREACHED)
      for (let tabs = 0; tabs < TABS_MAX && unreached.length > 0; tabs += TABS_AT_ONCE) {
        for (let each = 0; each < TABS_AT_ONCE; each++) await page.keyboard.press('Tab')
        unreached = await page.evaluate<string[]>(UNREACHED)
      }
      assert.deepEqual(unreached, [], path)
    }
    await page.goto('/streams/orders')
    const rows = page.getByRole('list', { name: 'Records of orders' }).getByRole('button')
    await rows.first().focus()
    const focused = "document.activeElement.closest('[role=listitem]').ariaPosInSet"
    await page.evaluate(`for (let each = 0; each < 40; each++) {
      document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true, cancelable: true }))
    }`) // faster than any row is drawn
    await eventually(async () => (await page.evaluate(focused)) === '41')
    await page.keyboard.press('ArrowUp')
    await eventually(async () => (await page.evaluate(focused)) === '40')
    await page.keyboard.press('End') // the focused row is out of sight now
    await page.keyboard.press('Enter')
    await page.waitForURL(/record=\d+/)
  })

  it('are loaded in a tab that nobody looks at yet, and again as soon as somebody does', async () => {
    const tab = await page.context().newPage()
    await tab.addInitScript(`globalThis.isHidden = true
      Object.defineProperty(document, 'hidden', { get: () => isHidden })`)
    await tab.goto('/streams')
    await tab.getByRole('link', { name: 'orders', exact: true }).waitFor()
    await fetch(`${server.at('broker')}/v1/streams/later`, { method: 'PUT' })
    await tab.evaluate("isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    await tab.getByRole('link', { name: 'later', exact: true }).waitFor()
    await tab.close()
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
      .waitFor() // the log of the store has this id too
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
