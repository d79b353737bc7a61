/** The console as a real process beside all services, and a browser that visits it. */
import assert from 'node:assert/strict'
import { createServer, connect } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { once } from 'node:events'
import { afterEach } from 'node:test'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, BrowserContext, CDPSession, Page, Request } from 'playwright-core'
import { startBrowser } from './browser.ts'
import { temporaryDirectory } from './directories.ts'
import { RunningService, launch } from './process.ts'
import type { Command, Environment, Launched, ReadyLine } from './process.ts'
import { LIMIT_MS, eventually } from './waiting.ts'

/** Runs as `npm start` runs it. */
export class ConsoleServer extends RunningService {
  readonly directory: string

  static async start(env: Environment = {}, services = ['logstore', 'objectstore', 'broker']): Promise<ConsoleServer> {
    const directory = temporaryDirectory()
    const command: Command = {
      entry: 'src/start.js',
      args: ['--services', services.join()],
      env: {
        LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
        LOGSTORE_DATA_DIR: `${directory}/logstore`,
        OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
        OBJSTORE_DATA_DIR: `${directory}/objectstore`,
        MQ_HTTP_BIND: '127.0.0.1:0',
        MQ_DATA_DIR: `${directory}/broker`,
        TRILOG_CONSOLE_BIND: '127.0.0.1:0',
        ...env,
      },
    }
    const server = new ConsoleServer(directory, command, await launch(command))
    await eventually(() => server.#ready.length === services.length + 1)
    return server
  }

  private constructor(directory: string, command: Command, launched: Launched) {
    super(command, launched)
    this.directory = directory
  }

  get #ready(): readonly ReadyLine[] {
    return Array.from(this.stdout.matchAll(/^ready (\{.*\})$/gm), ([, line]) => JSON.parse(line!) as ReadyLine) // as the contract says
  }

  /** Base URL of a service. */
  at(service: 'logstore' | 'objectstore' | 'broker' | 'console'): string {
    const line = this.#ready.find((each) => each.service === service)
    assert(line, `${service} does not run`)
    return `http://${line.http}`
  }
}

/** A proxy with a fixed address. A test can point it at another service, or at none. */
export class SwitchableProxy {
  /** host:port of the service; null: connections are closed. */
  target: string | null
  readonly #server: Server
  readonly #visitors = new Set<Socket>()

  static async open(target: string): Promise<SwitchableProxy> {
    const server = createServer()
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return new SwitchableProxy(server, target)
  }

  private constructor(server: Server, target: string) {
    this.#server = server
    this.target = target
    server.unref()
    server.on('connection', (visitor) => {
      const [host, port] = this.target?.split(':') ?? []
      visitor.on('error', () => {})
      this.#visitors.add(visitor)
      visitor.on('close', () => this.#visitors.delete(visitor))
      if (host === undefined) {
        visitor.destroy()
        return
      }
      const service = connect(Number(port), host).on('error', () => visitor.destroy())
      visitor.pipe(service).pipe(visitor)
    })
  }

  /** Ends the connections that lead through it. */
  cut(): void {
    for (const visitor of this.#visitors) visitor.destroy()
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }
}

export type Theme = 'light' | 'dark'

const SHOWN_TEXT_MAX = 2000

/**
 * A browser context of its own, with everything that its pages complain about.
 *
 * When a test fails, what the page shows and what it waits for are printed beside it.
 */
export class Visitor {
  readonly page: Page
  readonly complaints: string[] = []
  /** Hosts that the page sent requests to. */
  readonly hosts = new Set<string>()
  /** URLs of all requests. */
  readonly asked: string[] = []
  /** URLs of requests whose answer has not arrived whole. */
  readonly #unanswered = new Map<Request, string>()
  readonly #context: BrowserContext
  #profiler: CDPSession | null = null

  static async open(
    browser: Browser,
    baseURL: string,
    theme: Theme = 'light',
    locale: string = 'en-GB',
  ): Promise<Visitor> {
    const context = await browser.newContext({
      baseURL,
      colorScheme: theme,
      locale,
      viewport: { width: 1360, height: 850 },
    })
    context.setDefaultTimeout(LIMIT_MS)
    const visitor = new Visitor(context, await context.newPage())
    afterEach(async (test) => {
      if ('passed' in test && !test.passed) await visitor.#describePage()
    })
    return visitor
  }

  private constructor(context: BrowserContext, page: Page) {
    this.#context = context
    this.page = page
    page.on('pageerror', ({ message }) => this.complaints.push(message))
    page.on('dialog', (dialog) => {
      this.complaints.push(`a dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on('console', (message) => {
      if (/Content Security Policy|Refused to/.test(message.text())) this.complaints.push(message.text())
    })
    page.on('request', (request) => {
      const { host, protocol } = new URL(request.url())
      if (protocol.startsWith('http')) this.hosts.add(host)
      this.asked.push(request.url())
      this.#unanswered.set(request, request.url())
    })
    page.on('requestfinished', (request) => this.#unanswered.delete(request))
    page.on('requestfailed', (request) => this.#unanswered.delete(request))
  }

  async #describePage(): Promise<void> {
    if (this.page.isClosed()) return
    const text = await this.page.locator('body').innerText()
    console.error(`the page ${this.page.url()} shows: ${text.slice(0, SHOWN_TEXT_MAX).replaceAll('\n', ' | ')}`)
    console.error(`without an answer: ${[...this.#unanswered.values()].join(' ') || 'no request'}`)
  }

  /**
   * The violations that axe finds in both themes, one a line. The dark theme is checked for contrast only, as only its colours differ.
   *
   * @param within selector of the part that is checked
   */
  async violations(within = 'html'): Promise<readonly string[]> {
    const light = await this.#analyze((axe) => axe.include(within))
    await this.page.emulateMedia({ colorScheme: 'dark' })
    const dark = await this.#analyze((axe) => axe.include(within).withRules('color-contrast'))
    await this.page.emulateMedia({ colorScheme: 'light' })
    return [...light, ...dark.map((line) => `dark: ${line}`)]
  }

  async #analyze(choose: (axe: AxeBuilder) => AxeBuilder): Promise<readonly string[]> {
    const axe = new AxeBuilder({ page: this.page }).setLegacyMode() // else axe opens another page, to put the results of frames together
    const { violations } = await choose(axe).analyze()
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`))
  }

  /** Processor time of the page's main thread since an arbitrary moment. */
  async cpuMs(): Promise<number> {
    if (this.#profiler === null) {
      this.#profiler = await this.#context.newCDPSession(this.page)
      await this.#profiler.send('Performance.enable', { timeDomain: 'threadTicks' })
    }
    const { metrics } = await this.#profiler.send('Performance.getMetrics')
    return metrics.find(({ name }) => name === 'TaskDuration')!.value * 1000
  }

  async close(): Promise<void> {
    await this.#context.close()
  }
}

export { startBrowser }
