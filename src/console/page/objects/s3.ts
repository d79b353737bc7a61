/**
 * Requests to the object store, signed here when it asks for signatures: the secret key never leaves this page.
 *
 * S1 [signed-for]  a signature is over the host and the path that the object store sees: the console forwards the path as it is, and names the
 *                  store's own host
 * S2 [one-segment] a key is one segment of the address, its slashes encoded: browsers would take `..` and `.` between slashes for directories.
 *                  Only the keys `.` and `..` themselves have no address
 */
import { AwsV4Signer } from 'aws4fetch'
import { Refusal, requestIdOf, send } from '../request.ts'
import { session } from '../session.ts'
import type { Credentials } from '../session.ts'

export interface S3Request {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  readonly bucket?: string
  readonly key?: string
  /** A parameter without a value is ''. */
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Blob | string
  readonly signal?: AbortSignal
  /** Default: those that the visitor has signed in with. */
  readonly credentials?: Credentials
}

const encoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

const queryOf = (query: Readonly<Record<string, string>>): string =>
  Object.entries(query)
    .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
    .toSorted()
    .join('&')

/** S2 */
function pathOf({ bucket, key }: Pick<S3Request, 'bucket' | 'key'>): string {
  if (key === '.' || key === '..')
    throw new Refusal(400, 'no_address', `A browser cannot send a request for the key ${key}: use another client.`)
  return `/${[bucket, key]
    .filter((each) => each !== undefined)
    .map(encoded)
    .join('/')}`
}

/** S1: what both sides sign. */
const canonicalPath = (path: string): string => path.replaceAll('%2F', '/')

function signerOf(
  request: S3Request,
  path: string,
  query: string,
  extra: Partial<ConstructorParameters<typeof AwsV4Signer>[0]>,
): AwsV4Signer | null {
  const credentials = request.credentials ?? session.credentialsOf('objectstore')
  if (credentials?.kind !== 'access-key') return null
  const { url = '' } = session.about.services.objectstore ?? {}
  const signer = new AwsV4Signer({
    method: request.method,
    url: `${url}${path}${query === '' ? '' : `?${query}`}`,
    accessKeyId: credentials.id,
    secretAccessKey: credentials.secret,
    region: credentials.region,
    service: 's3',
    ...extra,
  })
  signer.encodedPath = canonicalPath(path)
  return signer
}

/** The address and the headers of the request. */
export async function prepared(request: S3Request): Promise<{ readonly path: string; readonly headers: Headers }> {
  const path = pathOf(request)
  const query = queryOf(request.query ?? {})
  const headers = new Headers(request.headers)
  const signer = signerOf(request, path, query, { headers: { ...request.headers } })
  if (signer) {
    const signed = await signer.sign()
    for (const name of ['authorization', 'x-amz-content-sha256', 'x-amz-date'])
      headers.set(name, signed.headers.get(name) ?? '')
  }
  return { path: `/objectstore${path}${query === '' ? '' : `?${query}`}`, headers }
}

/** @throws Refusal */
export async function s3(request: S3Request): Promise<Response> {
  const { path, headers } = await prepared(request)
  const { method, body, signal } = request
  return send(path, { method, headers, ...(body !== undefined && { body }), ...(signal && { signal }) })
}

/** An address that reads the object until it expires, for programs and people that reach the object store itself. */
export async function linkTo(bucket: string, key: string, seconds: number): Promise<string> {
  const { url = '' } = session.about.services.objectstore ?? {}
  return `${url}${await addressOf({ method: 'GET', bucket, key }, seconds)}`
}

/** An address below the console that the browser saves as a file. */
export async function downloadAddress(bucket: string, key: string): Promise<string> {
  return `/objectstore${await addressOf({ method: 'GET', bucket, key }, DOWNLOAD_SECONDS)}`
}

/** Long enough for a click. */
const DOWNLOAD_SECONDS = 60

/** As long as signatures may last. */
const ABORT_SECONDS = 7 * 24 * 3600

/** An address below the console that aborts the upload. It is signed before it is needed: a page that goes away has no time to sign. */
export async function abortAddress(bucket: string, key: string, uploadId: string): Promise<string> {
  return `/objectstore${await addressOf({ method: 'DELETE', bucket, key, query: { uploadId } }, ABORT_SECONDS)}`
}

async function addressOf(request: S3Request, seconds: number): Promise<string> {
  const path = pathOf(request)
  const { query = {} } = request
  const expiring = queryOf({ ...query, 'X-Amz-Expires': String(seconds) })
  const signer = signerOf(request, path, expiring, { signQuery: true })
  if (signer === null) return `${path}${Object.keys(query).length === 0 ? '' : `?${queryOf(query)}`}`
  const { url } = await signer.sign()
  return `${path}${url.search}`
}

const document = async (request: S3Request): Promise<Document> => documentIn(await s3(request))

const documentIn = async (response: Response): Promise<Document> =>
  new DOMParser().parseFromString(await response.text(), 'application/xml')

export const textIn = (node: Document | Element, name: string): string =>
  node.getElementsByTagName(name)[0]?.textContent ?? ''
const elements = (node: Document | Element, name: string): readonly Element[] => [...node.getElementsByTagName(name)]

const escaped = (text: string): string =>
  text.replaceAll(/[&<>"\r\n\t]/g, (character) => `&#${character.charCodeAt(0)};`)

export interface Bucket {
  readonly name: string
  readonly createdMs: number
}

export async function listBuckets(signal?: AbortSignal): Promise<readonly Bucket[]> {
  const listed = await document({ method: 'GET', ...(signal && { signal }) })
  return elements(listed, 'Bucket').map((each) => ({
    name: textIn(each, 'Name'),
    createdMs: Date.parse(textIn(each, 'CreationDate')),
  }))
}

export interface ListedObject {
  readonly key: string
  readonly size: number
  readonly modifiedMs: number
  readonly etag: string
}

export interface Listing {
  readonly folders: readonly string[]
  readonly objects: readonly ListedObject[]
  /** Null: that was all. */
  readonly token: string | null
}

const decodedKey = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '))

export async function listObjects(
  bucket: string,
  { prefix, delimiter, token }: { readonly prefix: string; readonly delimiter: string; readonly token: string | null },
  signal?: AbortSignal,
): Promise<Listing> {
  const query = {
    'list-type': '2',
    'encoding-type': 'url',
    prefix,
    ...(delimiter !== '' && { delimiter }),
    ...(token !== null && { 'continuation-token': token }),
  }
  const listed = await document({ method: 'GET', bucket, query, ...(signal && { signal }) })
  return {
    folders: elements(listed, 'CommonPrefixes').map((each) => decodedKey(textIn(each, 'Prefix'))),
    objects: elements(listed, 'Contents').map((each) => ({
      key: decodedKey(textIn(each, 'Key')),
      size: Number(textIn(each, 'Size')),
      modifiedMs: Date.parse(textIn(each, 'LastModified')),
      etag: textIn(each, 'ETag'),
    })),
    token: textIn(listed, 'IsTruncated') === 'true' ? textIn(listed, 'NextContinuationToken') : null,
  }
}

/** An upload in parts that is neither complete nor aborted. */
export interface OpenUpload {
  readonly key: string
  readonly uploadId: string
  readonly begunMs: number
}

/** The first thousand open uploads of a bucket, by key. */
export async function listUploads(
  bucket: string,
  signal?: AbortSignal,
): Promise<{ readonly uploads: readonly OpenUpload[]; readonly isAll: boolean }> {
  const query = { uploads: '', 'encoding-type': 'url' }
  const listed = await document({ method: 'GET', bucket, query, ...(signal && { signal }) })
  const uploads = elements(listed, 'Upload').map((each) => ({
    key: decodedKey(textIn(each, 'Key')),
    uploadId: textIn(each, 'UploadId'),
    begunMs: Date.parse(textIn(each, 'Initiated')),
  }))
  return { uploads, isAll: textIn(listed, 'IsTruncated') !== 'true' }
}

export async function abortUpload(bucket: string, key: string, uploadId: string): Promise<void> {
  await s3({ method: 'DELETE', bucket, key, query: { uploadId } })
}

/** What was not deleted, and why. */
export interface NotDeleted {
  readonly key: string
  readonly message: string
  readonly requestId: string
}

const DELETED_AT_ONCE_MAX = 1000

export async function deleteObjects(bucket: string, keys: readonly string[]): Promise<readonly NotDeleted[]> {
  const refused: NotDeleted[] = []
  for (let at = 0; at < keys.length; at += DELETED_AT_ONCE_MAX) {
    const objects = keys.slice(at, at + DELETED_AT_ONCE_MAX).map((key) => `<Object><Key>${escaped(key)}</Key></Object>`)
    const body = `<Delete><Quiet>true</Quiet>${objects.join('')}</Delete>`
    const headers = { 'x-amz-checksum-sha256': await sha256(body) }
    const answer = await s3({ method: 'POST', bucket, query: { delete: '' }, headers, body })
    const requestId = requestIdOf(answer.headers)
    for (const each of elements(await documentIn(answer), 'Error'))
      refused.push({ key: textIn(each, 'Key'), message: textIn(each, 'Message'), requestId })
  }
  return refused
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return btoa(String.fromCharCode(...new Uint8Array(digest)))
}

export type Tags = readonly (readonly [name: string, value: string])[]

export async function tagsOf(bucket: string, key: string, signal?: AbortSignal): Promise<Tags> {
  const answer = await document({ method: 'GET', bucket, key, query: { tagging: '' }, ...(signal && { signal }) })
  return elements(answer, 'Tag').map((each) => [textIn(each, 'Key'), textIn(each, 'Value')])
}

export async function putTags(bucket: string, key: string, tags: Tags): Promise<void> {
  const set = tags.map(([name, value]) => `<Tag><Key>${escaped(name)}</Key><Value>${escaped(value)}</Value></Tag>`)
  await s3({
    method: 'PUT',
    bucket,
    key,
    query: { tagging: '' },
    body: `<Tagging><TagSet>${set.join('')}</TagSet></Tagging>`,
  })
}

/** A document of a bucket; null: it has none. */
export async function bucketDocument(
  bucket: string,
  name: 'cors' | 'policy',
  signal: AbortSignal,
): Promise<string | null> {
  try {
    return await (await s3({ method: 'GET', bucket, query: { [name]: '' }, signal })).text()
  } catch (error) {
    if (error instanceof Refusal && (error.code === 'NoSuchCORSConfiguration' || error.code === 'NoSuchBucketPolicy'))
      return null
    throw error
  }
}
