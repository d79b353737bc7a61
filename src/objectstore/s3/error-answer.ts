/** Body of a refusal: S3's `<Error>`, which has no namespace. */
import type { S3Error } from '../refusals.ts'
import { XML_DECLARATION, escapeXml, textElement } from './xml/xml-text.ts'

export interface ErrorIds {
  readonly requestId: string
  readonly hostId: string
}

export function renderError({ code, message, fields }: S3Error, { requestId, hostId }: ErrorIds): string {
  const extra = Object.entries(fields).map(([name, value]) => textElement(name, String(value)))
  const head = `<Code>${code}</Code><Message>${escapeXml(message)}</Message>${extra.join('')}`
  const ids = `<RequestId>${escapeXml(requestId)}</RequestId><HostId>${escapeXml(hostId)}</HostId>`
  return `${XML_DECLARATION}<Error>${head}${ids}</Error>`
}
