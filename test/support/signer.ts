/**
 * A client's side of Signature Version 4, written from the documentation and not from the code under test: it encodes names and
 * values itself, as clients do, and never reads a wire form.
 */
import { createHash, createHmac } from 'node:crypto'
import type { SignedRequest } from '../../src/objectstore/s3/auth/canonical-request.ts'

export const KEY_ID = 'AKIAIOSFODNN7EXAMPLE'
export const SECRET = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'
export const REGION = 'us-east-1'
/** Time of all examples in the documentation: 2013-05-24T00:00:00Z. */
export const TIMESTAMP = '20130524T000000Z'
export const NOW_MS = Date.UTC(2013, 4, 24)

const sha256 = (text: string | Uint8Array): string => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

export const EMPTY_SHA256 = sha256('')

/** What a client wants to send. */
export interface Draft {
  readonly method?: string
  /** Path, not encoded. */
  readonly path?: string
  /** Instead of `path`: sent and signed as it stands. */
  readonly rawPath?: string
  /** Parameters, not encoded. */
  readonly query?: readonly (readonly [string, string])[]
  readonly headers?: Readonly<Record<string, string>>
  readonly payloadHash?: string
  readonly timestamp?: string
  readonly region?: string
  readonly secret?: string
  readonly keyId?: string
  /** Names of headers to leave out of the signature. */
  readonly unsigned?: readonly string[]
}

const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)

export const signingKey = (day = TIMESTAMP.slice(0, 8), region = REGION, secret = SECRET): Buffer =>
  hmac(hmac(hmac(hmac(`AWS4${secret}`, day), region), 's3'), 'aws4_request')

const scope = (timestamp: string, region: string): string => `${timestamp.slice(0, 8)}/${region}/s3/aws4_request`

interface Prepared {
  readonly path: string
  readonly pairs: readonly string[]
  readonly headers: ReadonlyMap<string, string>
  readonly signedNames: readonly string[]
}

function prepare(draft: Draft, headers: Readonly<Record<string, string>>): Prepared {
  const sorted = Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase(), value] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return {
    path: draft.rawPath ?? (draft.path ?? '/').split('/').map(encode).join('/'),
    pairs: (draft.query ?? []).map(([name, value]) => `${encode(name)}=${encode(value)}`),
    headers: new Map(sorted),
    signedNames: sorted.map(([name]) => name).filter((name) => !draft.unsigned?.includes(name)),
  }
}

function sign(draft: Draft, { path, headers, signedNames }: Prepared, pairs: readonly string[], hash: string): string {
  const { timestamp = TIMESTAMP, region = REGION } = draft
  const canonical = [
    draft.method ?? 'GET',
    path,
    [...pairs].sort((a, b) => (a.replace('=', '\0') < b.replace('=', '\0') ? -1 : 1)).join('&'),
    signedNames.map((name) => `${name}:${headers.get(name)!.trim().replaceAll(/ +/g, ' ')}\n`).join(''),
    signedNames.join(';'),
    hash,
  ].join('\n')
  const text = ['AWS4-HMAC-SHA256', timestamp, scope(timestamp, region), sha256(canonical)].join('\n')
  return hmac(signingKey(timestamp.slice(0, 8), region, draft.secret), text).toString('hex')
}

export function signHeader(draft: Draft): SignedRequest & { readonly signature: string } {
  const { timestamp = TIMESTAMP, region = REGION, keyId = KEY_ID, payloadHash = EMPTY_SHA256 } = draft
  const prepared = prepare(draft, {
    host: 'examplebucket.s3.amazonaws.com',
    'x-amz-date': timestamp,
    'x-amz-content-sha256': payloadHash,
    ...draft.headers,
  })
  const signature = sign(draft, prepared, prepared.pairs, payloadHash)
  const authorization =
    `AWS4-HMAC-SHA256 Credential=${keyId}/${scope(timestamp, region)},` +
    `SignedHeaders=${prepared.signedNames.join(';')},Signature=${signature}`
  return {
    method: draft.method ?? 'GET',
    path: prepared.path,
    query: prepared.pairs.join('&'),
    headers: new Map([...prepared.headers, ['authorization', authorization]]),
    signature,
  }
}

export function presign(draft: Draft & { readonly expires?: string }): SignedRequest {
  const { timestamp = TIMESTAMP, region = REGION, keyId = KEY_ID, payloadHash = 'UNSIGNED-PAYLOAD' } = draft
  const prepared = prepare(draft, { host: 'examplebucket.s3.amazonaws.com', ...draft.headers })
  const pairs = [
    ...prepared.pairs,
    'X-Amz-Algorithm=AWS4-HMAC-SHA256',
    `X-Amz-Credential=${encode(`${keyId}/${scope(timestamp, region)}`)}`,
    `X-Amz-Date=${timestamp}`,
    `X-Amz-Expires=${draft.expires ?? '86400'}`,
    `X-Amz-SignedHeaders=${encode(prepared.signedNames.join(';'))}`,
  ]
  const signature = sign(draft, prepared, pairs, payloadHash)
  return {
    method: draft.method ?? 'GET',
    path: prepared.path,
    query: [...pairs, `X-Amz-Signature=${signature}`].join('&'),
    headers: prepared.headers,
  }
}

export interface SignedBody {
  readonly bytes: Buffer
  readonly payload: Buffer
}

/** Frames a payload in `aws-chunked`; the signature of each chunk covers that of the one before. */
export function frameSigned(
  seed: string,
  chunks: readonly Uint8Array[],
  trailer: readonly [name: string, value: string] | null = null,
  timestamp = TIMESTAMP,
): SignedBody {
  let previous = seed
  const chained = (algorithm: string, ...rest: readonly string[]): string => {
    const text = [algorithm, timestamp, scope(timestamp, REGION), previous, ...rest].join('\n')
    return (previous = hmac(signingKey(timestamp.slice(0, 8)), text).toString('hex'))
  }
  const framed = [...chunks, new Uint8Array()].map((chunk) => {
    const signature = chained('AWS4-HMAC-SHA256-PAYLOAD', EMPTY_SHA256, sha256(chunk))
    const head = Buffer.from(`${chunk.length.toString(16)};chunk-signature=${signature}\r\n`)
    return Buffer.concat([head, chunk, Buffer.from(chunk.length > 0 ? '\r\n' : '')])
  })
  if (trailer !== null) {
    const [name, value] = trailer
    const signature = chained('AWS4-HMAC-SHA256-TRAILER', sha256(`${name}:${value}\n`))
    framed.push(Buffer.from(`${name}:${value}\r\nx-amz-trailer-signature:${signature}\r\n`))
  }
  return { bytes: Buffer.concat([...framed, Buffer.from('\r\n')]), payload: Buffer.concat(chunks) }
}
