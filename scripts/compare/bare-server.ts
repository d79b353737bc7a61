/**
 * The least that a server of the same library does for a request: the line to reach for a service on one thread. It keeps nothing.
 *
 *   POST   reads the body with JSON.parse
 *   PUT    takes the body and looks at no byte of it
 *   GET    has no body to take
 *
 * Each request is answered, whatever its target, with the bytes that the first argument gives for its method: those of trilog.
 */
import { loadUws } from '../../src/http/uws.ts'
import type { UwsResponse } from '../../src/http/uws.ts'

export interface BareAnswer {
  readonly status: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string
}

const answers = JSON.parse(process.argv[2]!) as Readonly<Record<'POST' | 'PUT' | 'GET', BareAnswer>> // as the comparison writes it

function give(response: UwsResponse, { status, headers, body }: BareAnswer): void {
  response.cork(() => {
    response.writeStatus(status)
    for (const [name, value] of headers) response.writeHeader(name, value)
    response.end(body)
  })
}

const uws = loadUws()
const app = uws.App()
app.post('/*', (response) => {
  response.onAborted(() => {})
  let body = Buffer.alloc(0)
  response.onData((chunk, isLast) => {
    body = body.byteLength === 0 ? Buffer.from(chunk.slice(0)) : Buffer.concat([body, new Uint8Array(chunk)])
    if (!isLast) return
    JSON.parse(body.toString())
    give(response, answers.POST)
  })
})
app.put('/*', (response) => {
  response.onAborted(() => {})
  response.onData((_chunk, isLast) => {
    if (isLast) give(response, answers.PUT)
  })
})
app.get('/*', (response) => give(response, answers.GET))
app.listen('127.0.0.1', 0, (socket) => {
  if (!socket) throw new Error('cannot listen')
  console.log(`ready ${uws.us_socket_local_port(socket)}`)
})
process.on('SIGTERM', () => process.exit())
