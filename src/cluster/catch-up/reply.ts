/** What another node answers over HTTP. */
import type { ClientRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'

export interface Reply {
  readonly status: number
  readonly body: Buffer
}

/** The other node sent an HTTP reply instead of the upgrade that was asked for. */
export class Refused extends Error {
  readonly reply: Reply

  constructor(reply: Reply) {
    super(`HTTP ${reply.status}`)
    this.reply = reply
  }
}

/** Rejects with the error that broke the connection. */
export function replyTo(request: ClientRequest): Promise<Reply> {
  return new Promise((resolve, reject) => {
    request.on('error', reject)
    request.on('response', (response) => {
      buffer(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject)
    })
  })
}
