/**
 * Pictures of every page of the console, with data as people have it, in both themes. It takes two minutes: the charts of the overview show what
 * their page has seen.
 *
 *   npm run screenshots [DIRECTORY]    default: docs/images, where git keeps those that the README shows
 */
import { mkdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConsoleServer, Visitor, startBrowser } from '../test/support/console.ts'
import { Scene } from './screenshots/scene.ts'

const directory = process.argv[2] ?? 'docs/images'
mkdirSync(directory, { recursive: true })

/** The screen of a laptop. */
const SIZE = { width: 1366, height: 768 }
/** Least time that the charts of the overview show. */
const WATCHED_MS = 110_000
/** For what comes after the first answer: pages that ask again and again are never idle. */
const SETTLE_MS = 1500
const THEMES = ['light', 'dark'] as const

const startMs = Date.now()
const server = await ConsoleServer.start({ MQ_METRICS_EXPOSURE: 'http' })
const browser = await startBrowser()
const scene = new Scene(server)
try {
  await scene.fill()
  const working = scene.work()
  const overviews = await Promise.all(THEMES.map((theme) => open(theme)))
  for (const { page } of overviews) await page.goto('/')
  for (const theme of THEMES) await takePages(theme)
  await sleep(Math.max(0, startMs + WATCHED_MS - Date.now()))
  for (const [at, { page }] of overviews.entries()) {
    await page.screenshot({ path: `${directory}/overview-${THEMES[at]}.png` })
  }
  scene.rest()
  await working
} finally {
  await browser.close()
  await server.stop()
}

async function open(theme: (typeof THEMES)[number]): Promise<Visitor> {
  const visitor = await Visitor.open(browser, server.at('console'), theme)
  await visitor.page.setViewportSize(SIZE)
  return visitor
}

async function takePages(theme: (typeof THEMES)[number]): Promise<void> {
  const visitor = await open(theme)
  const { page } = visitor
  for (const [name, path] of Object.entries(scene.pages)) {
    await page.goto(path)
    await page.getByText('Loading…').first().waitFor({ state: 'detached' })
    await sleep(SETTLE_MS)
    await page.screenshot({ path: `${directory}/${name}-${theme}.png` })
  }
  await visitor.close()
}
