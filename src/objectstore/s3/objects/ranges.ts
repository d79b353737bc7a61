/**
 * Which bytes of an object a request asks for: all, a range, or one part of an upload.
 *
 * G1  a Range that is not one range of bytes is ignored, as S3 and RFC 9110 have it; one that lies behind the object is refused
 * G2  with If-Range, a Range is about the object that the client knows: it is ignored when that was replaced
 */
import { PARTS_MAX } from '../document-limits.ts'
import type { ObjectPart, StoredObject } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { GatewayRequest } from '../handler.ts'
import { invalidHeader } from './header-refusals.ts'
import { parseHttpDate, wholeSeconds } from './http-date.ts'

/** The bytes [from, to). */
export interface Selection {
  readonly kind: 'whole' | 'range' | 'part'
  readonly from: number
  readonly to: number
  /** A part of an object that came in parts; null when the request selects no single part. */
  readonly part: ObjectPart | null
}

const SINGLE_RANGE = /^bytes=(\d*)-(\d*)$/i

/** @throws S3Error InvalidRange, InvalidPartNumber, InvalidArgument, InvalidRequest */
export function selectionOf(
  { headers, query }: Pick<GatewayRequest, 'headers' | 'query'>,
  object: StoredObject,
): Selection {
  const range = headers.get('range')
  const partNumber = query.get('partNumber')
  if (partNumber !== undefined) {
    if (range === undefined) return partSelection(partNumber, object)
    throw refuse('InvalidRequest', 'Cannot specify both Range header and partNumber query parameter')
  }
  const whole = { kind: 'whole', from: 0, to: object.size, part: null } as const
  if (range === undefined || !isAboutThis(headers.get('if-range'), object)) return whole
  const [from, to] = parseRange(range, object.size) ?? []
  return from === undefined || to === undefined ? whole : { kind: 'range', from, to, part: null }
}

/** `bytes 0-4/10`, for an object that has bytes. */
export const contentRange = ({ from, to }: Selection, size: number): string => `bytes ${from}-${to - 1}/${size}`

/** @returns null: to be ignored. G1 @throws S3Error InvalidRange */
function parseRange(range: string, size: number): readonly [from: number, to: number] | null {
  const [, first, last] = SINGLE_RANGE.exec(range.trim()) ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) return null
  const isSuffix = first === ''
  if (!isSuffix && last !== '' && Number(last) < Number(first)) return null
  const from = isSuffix ? Math.max(0, size - Number(last)) : Number(first)
  const to = isSuffix || last === '' ? size : Math.min(size, Number(last) + 1)
  if (from < to) return [from, to]
  throw refuse('InvalidRange', undefined, {
    fields: { RangeRequested: range.slice(0, 256), ActualObjectSize: size },
    headers: [['Content-Range', `bytes */${size}`]],
  })
}

/** G2. False for a weak ETag, and for a date that is not the object's. */
function isAboutThis(ifRange: string | undefined, { etag, lastModifiedMs }: StoredObject): boolean {
  if (ifRange === undefined) return true
  return ifRange.trim() === `"${etag}"` || parseHttpDate(ifRange) === wholeSeconds(lastModifiedMs)
}

function partSelection(text: string, { size, parts }: StoredObject): Selection {
  const partNumber = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (partNumber < 1 || partNumber > PARTS_MAX) {
    throw invalidHeader('partNumber', text, `Part number must be an integer between 1 and ${PARTS_MAX}, inclusive`)
  }
  if (parts === null && partNumber === 1) return { kind: 'part', from: 0, to: size, part: null }
  let from = 0
  for (const part of parts ?? []) {
    if (part.partNumber === partNumber) return { kind: 'part', from, to: from + part.size, part }
    from += part.size
  }
  throw refuse('InvalidPartNumber', undefined, {
    fields: { ActualPartCount: parts?.length ?? 1, PartNumberRequested: partNumber },
  })
}
