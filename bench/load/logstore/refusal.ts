/**
 * The kind of a refusal, from the JSON envelope `{"error":{"kind":…}}` or from a google.rpc.Status in protobuf, whose
 * message reads `<kind>: <message>`.
 */
import type { HttpResponse } from '../http-response-parser.ts'

const UNKNOWN = 'unknown'
const KIND = /^[a-z][a-z0-9_]*$/

export function refusalKind({ contentType, body }: HttpResponse): string {
  const kind = contentType.startsWith('application/json') ? kindOfEnvelope(body) : kindOfStatus(body)
  return KIND.test(kind) ? kind : UNKNOWN
}

function kindOfEnvelope(body: Buffer): string {
  try {
    const envelope: unknown = JSON.parse(body.toString())
    const kind: unknown = Object(Object(envelope).error).kind
    return typeof kind === 'string' ? kind : UNKNOWN
  } catch {
    return UNKNOWN // not JSON after all
  }
}

/** google.rpc.Status: code = 1 (varint), message = 2 (string), details = 3 (messages). */
function kindOfStatus(body: Buffer): string {
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let scale = 1; at < body.byteLength; scale *= 128) {
      const byte = body[at++]!
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
    }
    return Infinity // cut short: ends the loop below
  }
  while (at < body.byteLength) {
    const tag = varint()
    if (tag % 8 === 0) varint()
    else if (tag % 8 === 2) {
      const length = varint()
      if (tag === 2 * 8 + 2) return body.toString('utf8', at, at + Math.min(length, 256)).split(':')[0] ?? UNKNOWN
      at += length
    } else return UNKNOWN
  }
  return UNKNOWN
}
