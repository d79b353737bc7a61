/**
 * Conditions that a request makes in its headers: on what it reads, on what it copies, and on what it is about to replace.
 *
 * C1  where there is a condition on the ETag, the one on the time is ignored (RFC 9110, 13.2.2)
 * C2  a write's condition is about the object that is there at the moment of the change. So it is a `Precondition`, which is checked
 *     once before a body is read and once by the store
 * C3  a date that is none is no condition, nor is an If-Modified-Since in the future
 *
 * S3 takes only `*` in the If-None-Match of a write, and only an ETag in its If-Match; here both take both.
 */
import { eitherHeader } from '../auth/request-identity.ts'
import { UNCONDITIONAL } from '../../operations.ts'
import type { Bucket, ObjectAttributes, ObjectStore, ObjectSummary, Precondition } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import { headerNotImplemented } from './header-refusals.ts'
import { httpDate, parseHttpDate, wholeSeconds } from './http-date.ts'

type Headers = ReadonlyMap<string, string>

interface ConditionHeaders {
  readonly ifMatch: string | undefined
  readonly ifNoneMatch: string | undefined
  readonly ifModifiedSince: string | undefined
  readonly ifUnmodifiedSince: string | undefined
}

/** The condition that failed, named by its header, for the message. */
type Failure = 'If-Match' | 'If-Unmodified-Since' | 'If-None-Match' | 'If-Modified-Since'

/** Headers for caches, the same in an answer with the object and in a NotModified: RFC 9110, 15.4.5. */
type CacheHeaders = Pick<ObjectAttributes, 'cacheControl' | 'expires'>

/** Conditions of GetObject and HeadObject. @throws S3Error PreconditionFailed, NotModified */
export function checkRead(headers: Headers, object: ObjectSummary, cache: CacheHeaders, nowMs: number): void {
  const failure = failureOf(conditionsOf(headers), object, nowMs)
  if (failure === null) return
  if (failure === 'If-Match' || failure === 'If-Unmodified-Since') throw preconditionFailed(failure)
  const { cacheControl, expires } = cache
  throw refuse('NotModified', undefined, {
    headers: [...validators(object), ...present('Cache-Control', cacheControl), ...present('Expires', expires)],
  })
}

/** Conditions on the source of a copy. @throws S3Error PreconditionFailed */
export function checkCopySource(headers: Headers, source: ObjectSummary, nowMs: number): void {
  const conditions = {
    ifMatch: eitherHeader(headers, 'copy-source-if-match'),
    ifNoneMatch: eitherHeader(headers, 'copy-source-if-none-match'),
    ifModifiedSince: eitherHeader(headers, 'copy-source-if-modified-since'),
    ifUnmodifiedSince: eitherHeader(headers, 'copy-source-if-unmodified-since'),
  }
  const failure = failureOf(conditions, source, nowMs)
  if (failure !== null) throw preconditionFailed(`x-amz-copy-source-${failure}`)
}

/**
 * Conditions of operations that put an object under a key: PutObject, CopyObject, CompleteMultipartUpload.
 *
 * @returns a precondition that refuses with NoSuchKey or PreconditionFailed
 * @throws S3Error NotImplemented when it has both of If-Match and If-None-Match
 */
export function writePrecondition(headers: Headers, key: string): Precondition {
  const { ifMatch, ifNoneMatch, ifUnmodifiedSince } = conditionsOf(headers)
  if (ifMatch !== undefined && ifNoneMatch !== undefined) throw headerNotImplemented('If-Match')
  const unmodifiedSinceMs = ifMatch === undefined ? dateOf(ifUnmodifiedSince) : null // C1
  if (ifMatch === undefined && ifNoneMatch === undefined && unmodifiedSinceMs === null) return UNCONDITIONAL
  return (current) => {
    if (current === null) return ifMatch === undefined ? null : noSuchKey(key)
    if (ifMatch !== undefined && !matches(ifMatch, current.etag, 'strong')) return preconditionFailed('If-Match')
    if (isLaterThan(current, unmodifiedSinceMs)) return preconditionFailed('If-Unmodified-Since')
    const isThere = ifNoneMatch !== undefined && matches(ifNoneMatch, current.etag, 'weak')
    return isThere ? preconditionFailed('If-None-Match') : null
  }
}

/** Checks a precondition before a body is read. @throws what the precondition refuses with */
export function demandPrecondition(precondition: Precondition, store: ObjectStore, bucket: Bucket, key: string): void {
  const refused = precondition === UNCONDITIONAL ? null : precondition(store.peek(bucket, key))
  if (refused !== null) throw refused
}

/**
 * True when the conditions of a write reveal something of the stored object, so that the caller needs the permission to read it.
 * `If-None-Match: *` does not count: it only asks whether there is an object.
 */
export function revealsStoredObject(headers: Headers): boolean {
  const { ifMatch, ifNoneMatch, ifUnmodifiedSince } = conditionsOf(headers)
  return (
    ifMatch !== undefined || (ifNoneMatch !== undefined && !isAny(ifNoneMatch)) || dateOf(ifUnmodifiedSince) !== null
  )
}

/** @returns a precondition that refuses with NoSuchKey or PreconditionFailed @throws S3Error NotImplemented */
export function deletePrecondition(headers: Headers, key: string): Precondition {
  for (const name of ['if-match-size', 'if-match-last-modified-time']) {
    if (eitherHeader(headers, name) !== undefined) throw headerNotImplemented(`x-amz-${name}`)
  }
  return etagPrecondition(headers.get('if-match') ?? null, key)
}

/** The condition of a key in DeleteObjects. @param etag as sent, `*` for any; null: no condition */
export const etagPrecondition = (etag: string | null, key: string): Precondition =>
  etag === null
    ? UNCONDITIONAL
    : (current) => {
        if (current === null) return noSuchKey(key)
        return matches(etag, current.etag, 'strong') ? null : preconditionFailed('If-Match')
      }

/** Headers on which a client may make conditions later. */
export const validators = ({ etag, lastModifiedMs }: ObjectSummary): readonly [name: string, value: string][] => [
  ['Last-Modified', httpDate(lastModifiedMs)],
  ['ETag', `"${etag}"`],
]

const present = (name: string, value: string | null): readonly [name: string, value: string][] =>
  value === null ? [] : [[name, value]]

const conditionsOf = (headers: Headers): ConditionHeaders => ({
  ifMatch: headers.get('if-match'),
  ifNoneMatch: headers.get('if-none-match'),
  ifModifiedSince: headers.get('if-modified-since'),
  ifUnmodifiedSince: headers.get('if-unmodified-since'),
})

/** C1, C3 */
function failureOf(conditions: ConditionHeaders, object: ObjectSummary, nowMs: number): Failure | null {
  const { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince } = conditions
  if (ifMatch !== undefined) {
    if (!matches(ifMatch, object.etag, 'strong')) return 'If-Match'
  } else if (isLaterThan(object, dateOf(ifUnmodifiedSince))) return 'If-Unmodified-Since'
  if (ifNoneMatch !== undefined) return matches(ifNoneMatch, object.etag, 'weak') ? 'If-None-Match' : null
  const sinceMs = dateOf(ifModifiedSince)
  if (sinceMs === null || sinceMs > nowMs || isLaterThan(object, sinceMs)) return null
  return 'If-Modified-Since'
}

const dateOf = (header: string | undefined): number | null => (header === undefined ? null : parseHttpDate(header))

const isLaterThan = ({ lastModifiedMs }: ObjectSummary, timeMs: number | null): boolean =>
  timeMs !== null && wholeSeconds(lastModifiedMs) > timeMs

const isAny = (header: string): boolean => header.trim() === '*'

/**
 * @param header      ETags in a list, with or without their quotes, or `*`
 * @param comparison  weak: one that a proxy marked with `W/` is as good (RFC 9110, 8.8.3.2)
 */
function matches(header: string, etag: string, comparison: 'strong' | 'weak'): boolean {
  if (isAny(header)) return true
  return header.split(',').some((each) => {
    const text = each.trim()
    const tag = comparison === 'weak' ? text.replace(/^W\//, '') : text
    return tag === etag || tag === `"${etag}"`
  })
}

const noSuchKey = (key: string): S3Error => refuse('NoSuchKey', undefined, { fields: { Key: key } })

const preconditionFailed = (condition: string): S3Error =>
  refuse('PreconditionFailed', undefined, { fields: { Condition: condition } })
