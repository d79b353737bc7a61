/** Requests to the services, through the console, and what a refusal says. */
import { session } from './session.ts'
import type { Credentials, ServiceName } from './session.ts'

/** Why something did not happen, in words. */
export class Refusal extends Error {
  /** 0: there was no answer at all. */
  readonly status: number
  readonly code: string
  /** What to do about it; '' when the service does not say. */
  readonly action: string
  readonly requestId: string

  constructor(status: number, code: string, message: string, action = '', requestId = '') {
    super(message)
    this.status = status
    this.code = code
    this.action = action
    this.requestId = requestId
  }

  /** Whether the credentials are missing, or the service does not accept them. */
  get isOfCredentials(): boolean {
    return this.status === 401 || CREDENTIAL_CODES.has(this.code)
  }

  /** The service, or the console itself, cannot be reached. */
  get isAway(): boolean {
    return this.status === 0 || this.status === 502
  }

  /** The same request may succeed in a moment. */
  get mayPass(): boolean {
    return this.isAway || this.status === 429 || this.status === 503
  }
}

const CREDENTIAL_CODES: ReadonlySet<string> = new Set([
  'AuthorizationHeaderMalformed',
  'InvalidAccessKeyId',
  'RequestTimeTooSkewed',
  'SignatureDoesNotMatch',
])

export const asRefusal = (error: unknown): Refusal =>
  error instanceof Refusal ? error : new Refusal(0, 'failed', error instanceof Error ? error.message : String(error))

/** @throws Refusal, or the reason of an abort */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response
  try {
    response = await fetch(path, { ...init, cache: 'no-store', credentials: 'omit', redirect: 'error' })
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new Refusal(
      0,
      'unreachable',
      'The console itself does not answer.',
      'Check whether trilog runs, or start it again.',
    )
  }
  if (response.ok || response.status === 304) return response
  throw refusalOf(response.status, response.headers, await response.text())
}

/** The id of the request in the service's log. */
export const requestIdOf = (headers: Pick<Headers, 'get'>): string =>
  headers.get('x-obj-request-id') ?? headers.get('x-request-id') ?? ''

/** Reads a refusal in the service's own form. */
export function refusalOf(status: number, headers: Pick<Headers, 'get'>, text: string): Refusal {
  const requestId = requestIdOf(headers)
  if (text.startsWith('<')) {
    const xml = new DOMParser().parseFromString(text, 'application/xml')
    const said = (name: string): string => xml.getElementsByTagName(name)[0]?.textContent ?? ''
    return new Refusal(status, said('Code'), said('Message'), '', requestId)
  }
  const said = partsOf(text)
  if (said.console)
    return new Refusal(status, 'away', said.console.message, 'Start the service, or look at its log.', requestId)
  const { code = '', kind = '', message = '', action = '' } = said.error ?? {}
  const fallback = headers.get('x-obj-error-code') ?? text.trim()
  return new Refusal(status, code || kind, message || fallback || `status ${status}`, action, requestId)
}

interface Said {
  readonly console?: { readonly message: string }
  readonly error?: {
    readonly code?: string
    readonly kind?: string
    readonly message?: string
    readonly action?: string
  }
}

function partsOf(text: string): Said {
  try {
    const value: unknown = JSON.parse(text) ?? {}
    return typeof value === 'string' ? { error: { message: value } } : (value as Said) // the services' form
  } catch {
    return {}
  }
}

/** Headers that say who asks, for the services that take them as they are; the object store's requests are signed (objects/s3.ts). */
function identity(credentials: Credentials | null): Record<string, string> {
  if (credentials?.kind === 'api-key') return { authorization: `Bearer ${credentials.key}` }
  if (credentials?.kind !== 'tenant') return {}
  return { 'x-logstore-tenant': credentials.tenant, authorization: `Bearer ${credentials.token}` }
}

/** Text of a route that answers nothing but text. */
export async function askText(service: ServiceName, path: string, signal?: AbortSignal): Promise<string> {
  const response = await send(`/${service}${path}`, {
    headers: identity(session.credentialsOf(service)),
    ...(signal && { signal }),
  })
  return response.text()
}

export interface Asked {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly body?: object
  readonly signal?: AbortSignal
  /** Default: those that the visitor has signed in with. */
  readonly credentials?: Credentials
}

export interface Answered<Reply> {
  readonly reply: Reply
  readonly requestId: string
}

/** @param Reply as the route answers */
export const askJson = async <Reply>(service: ServiceName, path: string, asked: Asked = {}): Promise<Reply> =>
  (await askForReply<Reply>(service, path, asked)).reply

/** For an answer that has refusals in it: they show the request id as others do. @param Reply as the route answers */
export async function askForReply<Reply>(
  service: ServiceName,
  path: string,
  { method = 'GET', body, signal, credentials }: Asked = {},
): Promise<Answered<Reply>> {
  const response = await send(`/${service}${path}`, {
    method,
    headers: {
      ...identity(credentials ?? session.credentialsOf(service)),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  })
  return { reply: (await response.json()) as Reply, requestId: requestIdOf(response.headers) }
}

/** The body of an answer that has no end, as it comes. */
export async function openStream(
  service: ServiceName,
  path: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  const response = await send(`/${service}${path}`, {
    headers: { ...identity(session.credentialsOf(service)), ...headers },
    signal,
  })
  if (response.body === null) throw new Refusal(response.status, 'empty', 'The answer has no body.')
  return response.body
}
