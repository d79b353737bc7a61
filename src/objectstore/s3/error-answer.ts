/** Body of a refusal: S3's `<Error>`, which has no namespace. */
import type { S3Error } from '../refusals.ts'
import { XML_DECLARATION, escapeXml, textElement } from './xml/xml-text.ts'

/** What an error says of its request. */
export interface RefusedRequest {
  /** Bucket or object that was asked for; null: not known. */
  readonly resource: string | null
  readonly requestId: string
  readonly hostId: string
}

export function renderError(
  { code, message, fields }: S3Error,
  { resource, requestId, hostId }: RefusedRequest,
): string {
  const extra = Object.entries(fields).map(([name, value]) => textElement(name, String(value)))
  const head = `<Code>${code}</Code><Message>${escapeXml(message)}</Message>${extra.join('')}`
  const ids = `<RequestId>${escapeXml(requestId)}</RequestId><HostId>${escapeXml(hostId)}</HostId>`
  return `${XML_DECLARATION}<Error>${head}${textElement('Resource', resource)}${ids}</Error>`
}
