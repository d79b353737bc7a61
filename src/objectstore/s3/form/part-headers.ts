/** Reads the headers of a form and of its parts: the boundary, and the names of field and file. */
import { refuse } from '../../refusals.ts'

export interface PartHeaders {
  /** As sent. */
  readonly field: string
  /** As sent; some clients give one to every field. */
  readonly filename: string | null
}

const PARAMETER = /;\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))/gs

/**
 * @param text lines without the blank one that ends them
 * @throws S3Error MalformedPOSTRequest
 */
export function parsePartHeaders(text: string): PartHeaders {
  const headers = new Map<string, string>()
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon < 1) throw refuse('MalformedPOSTRequest')
    headers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim())
  }
  const disposition = headers.get('content-disposition') ?? ''
  if (!/^form-data\s*(;|$)/i.test(disposition)) throw refuse('MalformedPOSTRequest')
  const parameters = new Map<string, string>()
  for (const [, name, quoted, plain] of disposition.matchAll(PARAMETER)) {
    parameters.set(name!.toLowerCase(), quoted?.replaceAll('\\"', '"') ?? plain!)
  }
  const field = parameters.get('name') ?? ''
  if (field === '') throw refuse('MalformedPOSTRequest')
  return { field, filename: parameters.get('filename') ?? null }
}

const BOUNDARY = /;\s*boundary\s*=\s*(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))\s*(?:;|$)/i

/**
 * @param contentType of the request
 * @throws S3Error PreconditionFailed when it is no form, MalformedPOSTRequest without a boundary
 */
export function formBoundary(contentType: string | null): string {
  if (contentType === null || !/^multipart\/form-data\s*(;|$)/i.test(contentType.trim())) {
    throw refuse('PreconditionFailed', undefined, {
      fields: { Condition: 'Bucket POST must be of the enclosure-type multipart/form-data' },
    })
  }
  const [, quoted, plain] = BOUNDARY.exec(contentType) ?? []
  const boundary = quoted ?? plain
  if (boundary === undefined) throw refuse('MalformedPOSTRequest')
  return boundary
}
