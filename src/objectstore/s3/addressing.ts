/**
 * Which bucket and key a request names.
 *
 * A key is the bytes that were sent, percent-decoded. Dot segments and empty segments are part of it.
 *
 * A1  path-style: the first segment of the path is the bucket, all behind the slash after it is the key. Virtual-host style: the bucket is
 *     what stands before the trusted base domain in the host, and the whole path is the key
 * A2  a host under the base domain names a bucket, and the path is the key
 * A4  a bucket with a dot in its name cannot be in the host over TLS: no wildcard certificate covers it, so a client that sends such a request
 *     did not check which server answers. TLS ends before this service
 */
import { hostOf, withoutRootDot } from '../../addresses.ts'
import { refuse } from '../refusals.ts'
import type { S3Error } from '../refusals.ts'
import { KEY_BYTES_MAX } from './limits.ts'

export type EndpointStyle = 'path' | 'virtual-host'

export interface Address {
  readonly style: EndpointStyle
  /** Null: the service itself. */
  readonly bucket: string | null
  /** Null: the bucket itself. */
  readonly key: string | null
  /** `http://host/bucket/key` as the client addressed it; for a bucket, without a slash at the end. */
  readonly url: string
}

export type Place = Pick<Address, 'style' | 'bucket'>

export interface AddressedRequest {
  /** Raw, as sent. */
  readonly path: string
  readonly headers: ReadonlyMap<string, string>
  /** True when the client uses TLS. */
  readonly isSecure: boolean
}

/** The HTTP library turns bytes that are not UTF-8 into this character. A client that means the character itself sends it in percent-encoding. */
const NOT_UTF8 = '\ufffd'

export class Addressing {
  /** Lower case, with a dot before it; null: path-style only. */
  readonly #suffix: string | null

  constructor(baseDomain: string | null) {
    this.#suffix = baseDomain === null ? null : `.${baseDomain.toLowerCase()}`
  }

  /** @throws S3Error InvalidURI, KeyTooLongError */
  addressOf({ path, headers, isSecure }: AddressedRequest): Address {
    const authority = headers.get('host') ?? ''
    const host = hostOf(authority)
    if (host === null || !path.startsWith('/')) throw invalidUri()
    const origin = `${isSecure ? 'https' : 'http'}://${authority}`

    const inHost = this.#bucketIn(host)
    if (inHost === null) return pathStyle(origin, path)
    if (inHost === '' || (isSecure && inHost.includes('.'))) throw invalidUri() // A4
    const key = path.slice(1)
    return {
      style: 'virtual-host',
      bucket: inHost,
      key: key === '' ? null : keyOf(key),
      url: key === '' ? origin : `${origin}/${key}`,
    }
  }

  /** The address of a refused request, as far as it can be read. */
  placeOf({ path, headers }: Omit<AddressedRequest, 'isSecure'>): Place {
    const host = hostOf(headers.get('host') ?? '')
    if (host === null) return { style: 'path', bucket: null }
    const inHost = this.#bucketIn(host)
    return inHost === null
      ? { style: 'path', bucket: firstSegment(path) }
      : { style: 'virtual-host', bucket: inHost === '' ? null : inHost }
  }

  /** A2. The base domain itself has no bucket before it. */
  #bucketIn(host: string): string | null {
    const name = withoutRootDot(host)
    if (this.#suffix === null || !name.endsWith(this.#suffix)) return null
    return name.slice(0, -this.#suffix.length)
  }
}

/** Null when it is empty, or not UTF-8 in percent-encoding. */
function firstSegment(path: string): string | null {
  try {
    return percentDecoded(/^\/([^/]*)/.exec(path)?.[1] ?? '') || null
  } catch {
    return null
  }
}

/** A1 */
function pathStyle(origin: string, path: string): Address {
  if (path === '/') return { style: 'path', bucket: null, key: null, url: origin }
  const slash = path.indexOf('/', 1)
  const [bucket, key] = slash < 0 ? [path.slice(1), ''] : [path.slice(1, slash), path.slice(slash + 1)]
  if (bucket === '') throw invalidUri()
  return {
    style: 'path',
    bucket: percentDecoded(bucket),
    key: key === '' ? null : keyOf(key),
    url: key === '' ? `${origin}/${bucket}` : `${origin}/${bucket}/${key}`,
  }
}

function keyOf(raw: string): string {
  const key = percentDecoded(raw)
  const keyBytes = Buffer.byteLength(key)
  if (keyBytes > KEY_BYTES_MAX) {
    throw refuse('KeyTooLongError', undefined, { fields: { Size: keyBytes, MaxSizeAllowed: KEY_BYTES_MAX } })
  }
  return key
}

/** @throws S3Error InvalidURI for what is not UTF-8 in percent-encoding */
export function percentDecoded(raw: string): string {
  if (raw.includes(NOT_UTF8)) throw invalidUri()
  if (!raw.includes('%')) return raw
  try {
    return decodeURIComponent(raw)
  } catch {
    throw invalidUri()
  }
}

export const invalidUri = (message?: string): S3Error => refuse('InvalidURI', message)
