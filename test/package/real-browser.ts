/**
 * The client library in a real browser. The page is the node's own /health: if no server had sent the page, the browser would let it open no
 * WebSocket to this machine. It loads the built entry, which the test serves under the node's origin; its fetches and WebSockets go to the node.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import type * as Library from '../../src/client/browser.ts'
import { startBrowser } from '../support/browser.ts'
import { LIMIT_MS } from '../support/waiting.ts'

const LIBRARY_PATH = '/library/'
/** A name of this machine that the node does not know. */
const ELSEWHERE = 'elsewhere.test'

export interface InBrowser {
  readonly url: string
  readonly entry: string
  readonly apiKey: string | null
  readonly streaming: boolean
  readonly stream: string
}

export class RealBrowser {
  readonly #browser: Browser
  readonly #directory: string
  readonly #entry: string

  /** @param directory of the built library. @param entry path of its entry below the directory */
  static async start(directory: string, entry: string): Promise<RealBrowser> {
    return new RealBrowser(await startBrowser([`--host-resolver-rules=MAP ${ELSEWHERE} 127.0.0.1`]), directory, entry)
  }

  private constructor(browser: Browser, directory: string, entry: string) {
    this.#browser = browser
    this.#directory = directory
    this.#entry = entry
  }

  /** Does everything that a client does. @returns what the client saw */
  async use(options: Omit<InBrowser, 'entry'>): Promise<readonly string[]> {
    const page = await this.#open(options.url)
    const seen = await page.evaluate(use, { ...options, entry: `${LIBRARY_PATH}${this.#entry}` })
    await page.context().close()
    return seen
  }

  /** Sends requests to the node from a page of another site, whose server listens on `port`. */
  async useFromElsewhere(port: string, url: string, stream: string): Promise<readonly string[]> {
    const page = await this.#open(`http://${ELSEWHERE}:${port}`)
    const seen = await page.evaluate(useFromElsewhere, { url, stream })
    await page.context().close()
    return seen
  }

  close(): Promise<void> {
    return this.#browser.close()
  }

  async #open(origin: string): Promise<Page> {
    const context = await this.#browser.newContext()
    context.setDefaultTimeout(LIMIT_MS)
    const page = await context.newPage()
    await page.route(`${origin}${LIBRARY_PATH}**`, (route) => {
      const path = new URL(route.request().url()).pathname.slice(LIBRARY_PATH.length)
      return route.fulfill({ contentType: 'text/javascript', body: readFileSync(join(this.#directory, path)) })
    })
    await page.goto(`${origin}/health`)
    return page
  }
}

/** Runs in the page. */
async function use({ url, entry, apiKey, streaming, stream }: InBrowser): Promise<string[]> {
  const { HttpNativeClient, textOf } = (await import(entry)) as typeof Library // the entry is built from it
  const client = await HttpNativeClient.connect(url, { producerId: 'web', streaming, ...(apiKey && { apiKey }) })
  const seen: string[] = []
  await client.createStream(stream)
  const payload = Uint8Array.from({ length: 256 }, (_, i) => i)
  const published = await Promise.all([
    client.publish(stream, { message_id: 'bytes', payload }),
    client.publish(stream, { message_id: 'text', payload: 'käse', key: 'k' }),
  ])
  seen.push(`published ${published.map(({ acknowledgement }) => acknowledgement.durability).join()}`)
  const { deliveries } = await client.claimQueue(stream, 'claimed', { max_messages: 10 })
  for (const { record } of deliveries) {
    const isWhole = record.payload.byteLength === 256 && record.payload.every((byte, i) => byte === i)
    seen.push(record.message_id === 'text' ? `claimed ${textOf(record.payload)}` : `claimed bytes ${isWhole}`)
  }
  for (const delivery of deliveries) await client.ack(delivery)
  const { lag_messages } = await client.describeConsumerGroup(stream, 'claimed')
  seen.push(`${lag_messages} left`)
  const ended = new AbortController()
  await client.subscribeQueue(stream, 'subscribed', { prefetch: 2, signal: ended.signal }).handle(({ record }) => {
    seen.push(`handled ${record.message_id}`)
    if (record.message_id === 'text') ended.abort()
  })
  for await (const record of client.subscribeReplay(stream)) {
    seen.push(`replayed ${record.message_id}`)
    if (record.message_id === 'text') break
  }
  const refused = await client.describeStream('nowhere').then(
    () => 'found',
    ({ code }: Library.SdkError) => code,
  )
  seen.push(refused)
  await client.close()
  return seen
}

/** Runs in the page. */
async function useFromElsewhere({ url, stream }: { url: string; stream: string }): Promise<string[]> {
  const body = JSON.stringify({ message_id: 'foreign', payload: 'p' })
  const published = await fetch(`${url}/v1/streams/${stream}/records`, { method: 'POST', body, mode: 'no-cors' }).then(
    ({ type }) => type,
    (error: Error) => error.name,
  )
  const read = await fetch(`${url}/v1/streams/${stream}/records`).then(
    ({ status }) => `read ${status}`,
    (error: Error) => error.name,
  )
  const connected = await new Promise<string>((resolve) => {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/connection`, ['trilog.v1'])
    socket.addEventListener('open', () => resolve('open'))
    socket.addEventListener('error', () => resolve('refused'))
  })
  return [published, read, connected]
}
