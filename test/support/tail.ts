/** A client of `GET /v1/tail` over a socket of its own. */
import { once } from 'node:events'
import { get } from 'node:http'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { DEVELOPMENT_CREDENTIALS } from './logstore.ts'
import type { LogStoreServer } from './logstore.ts'
import { eventually } from './waiting.ts'

export interface TailEvent {
  readonly event: string
  readonly id: string
  readonly data: string
}

export class Tail {
  readonly status: number
  /** Id of the last event or heartbeat. */
  lastId = ''
  text = ''
  isOver = false
  /** Whether the response ended inside its body. */
  wasCut = false
  readonly events: TailEvent[] = []
  readonly #request: ClientRequest
  readonly #response: IncomingMessage
  #rest = ''

  static async open(
    server: LogStoreServer,
    path: string,
    { lastId = '', tenant, token }: { lastId?: string; tenant?: string; token?: string } = {},
  ): Promise<Tail> {
    const headers = {
      'x-logstore-tenant': tenant ?? DEVELOPMENT_CREDENTIALS.tenant,
      authorization: `Bearer ${token ?? DEVELOPMENT_CREDENTIALS.token}`,
      ...(lastId !== '' && { 'last-event-id': lastId }),
    }
    const request = get(`${server.url}${path}`, { agent: false, headers })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    const tail = new Tail(request, response)
    // The id of the first event is the place at which the tail begins.
    if (response.statusCode === 200) await tail.until(() => tail.lastId !== '')
    return tail
  }

  private constructor(request: ClientRequest, response: IncomingMessage) {
    this.#request = request
    this.#response = response
    this.status = response.statusCode!
    response.setEncoding('utf8')
    response.on('data', (text: string) => this.#hear(text))
    response.on('error', () => (this.wasCut = true))
    for (const event of ['end', 'error', 'close']) response.on(event, () => (this.isOver = true))
  }

  /** Records of the events without a name. */
  get records(): readonly { readonly record_id: string; readonly dataset: string }[] {
    return this.named('').map(({ data }) => JSON.parse(data) as { record_id: string; dataset: string }) // as a query shows them
  }

  named(name: string): readonly TailEvent[] {
    return this.events.filter(({ event }) => event === name)
  }

  pause(): void {
    this.#response.pause()
  }

  resume(): void {
    this.#response.resume()
  }

  close(): void {
    this.#request.destroy()
  }

  until(condition: () => boolean): Promise<void> {
    return eventually(condition)
  }

  /** Parses events as browsers do, as far as the store makes use of them. */
  #hear(text: string): void {
    this.text += text
    this.#rest += text
    for (let end = this.#rest.indexOf('\n\n'); end >= 0; end = this.#rest.indexOf('\n\n')) {
      const lines = this.#rest.slice(0, end).split('\n')
      this.#rest = this.#rest.slice(end + 2)
      const field = (name: string): string =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? ''
      const id = field('id')
      const data = field('data')
      if (id !== '') this.lastId = id
      if (data !== '') this.events.push({ event: field('event'), id, data })
    }
  }
}
