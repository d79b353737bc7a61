/**
 * The identity of a caller, and its permissions.
 *
 * A1  where requests need credentials, these are checked first, so that a caller without them learns nothing else
 * A2  a key is looked up by its digest and compared in constant time, with NO_HOLDER if there is none: every wrong header costs the same, and
 *     has the same answer. Headers that were right are remembered whole, because a digest costs a tenth of a publish; a Map of V8 compares
 *     two of them only when their seeded hashes are equal
 * A3  identity headers count only when a trusted proxy sends them, and each only once: a second one may be forged by the proxy's client
 * A4  the TLS handshake has checked that an authority of the operator signed the certificate: only its subject is left to be looked up
 */
import { X509Certificate, hash, timingSafeEqual } from 'node:crypto'
import type { BrokerCredential } from '../../config/broker-credentials.ts'
import { subjectOfCertificate } from '../../config/subject.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import type { TrustedProxies } from '../../http/trusted-proxies.ts'
import { ALL_GRANTS, Grants, isPermission } from '../grants.ts'
import type { Grant } from '../grants.ts'
import { isStreamName } from '../names.ts'
import type { Caller } from '../operations.ts'
import { refuse } from '../refusals.ts'

/** A caller, with its permissions. */
export interface Identity extends Caller {
  readonly grants: Grants
}

/** What identification reads of a request's head. */
export type CredentialHead = Pick<RequestHead, 'header' | 'headers'>

type Peer = Pick<Exchange, 'remoteAddress' | 'clientCertificate'>

export interface Access {
  /** The caller's identity. @throws BrokerError authentication_required, authentication_failed */
  identify(head: CredentialHead, peer: Peer): Identity
}

/** Access by the credentials in a file. */
export interface FileAccess extends Access {
  /** Only these credentials count from now on. */
  replace(credentials: readonly BrokerCredential[]): void
}

/** Every request is made by `caller`. */
export const openAccess = (caller: Caller): Access => {
  const identity = { ...caller, grants: ALL_GRANTS }
  return { identify: () => identity }
}

interface KeyHolder {
  readonly digest: Buffer
  readonly identity: Identity
}

/** A2. No key has this digest. */
const NO_HOLDER = { digest: Buffer.alloc(32), identity: null }
const KNOWN_MAX = 1000
/** Any number of spaces: RFC 9110, 11.4. */
const SCHEME = /^Bearer +([\x21-\x7e]{1,512})$/i

/** Mode `api-key`. */
export class KeyAccess implements FileAccess {
  /** By the digest in hexadecimal digits. */
  #holders: ReadonlyMap<string, KeyHolder> = new Map()
  /** By header; only headers that were right. */
  readonly #known = new Map<string, Identity>()

  constructor(credentials: readonly BrokerCredential[]) {
    this.replace(credentials)
  }

  replace(credentials: readonly BrokerCredential[]): void {
    this.#known.clear()
    this.#holders = new Map(
      credentials.flatMap((each) => {
        if (!('keySha256' in each.proof)) return []
        const { keySha256 } = each.proof
        return [[keySha256, { digest: Buffer.from(keySha256, 'hex'), identity: identityOf(each) }] as const]
      }),
    )
  }

  /** A2 */
  identify(head: CredentialHead): Identity {
    const given = head.header('authorization')
    const known = this.#known.get(given)
    if (known !== undefined) return known
    if (given === '') throw refuse('authentication_required', 'the request has no Authorization: Bearer …')
    const digest = hash('sha256', SCHEME.exec(given)?.[1] ?? `no key: ${given}`, 'buffer')
    const { digest: expected, identity } = this.#holders.get(digest.toString('hex')) ?? NO_HOLDER
    const isRight = timingSafeEqual(digest, expected)
    if (!isRight || identity === null) throw refuse('authentication_failed', 'this node does not know the key')
    if (this.#known.size === KNOWN_MAX) this.#known.clear()
    this.#known.set(given, identity)
    return identity
  }
}

/** Mode `mtls`: A4. */
export class CertificateAccess implements FileAccess {
  /** By the subject, in either order. */
  #identities: ReadonlyMap<string, Identity> = new Map()
  /** Identities by certificate; null: the certificate has none. To read a certificate costs as much as a publish. */
  readonly #known = new Map<string, Identity | null>()

  constructor(credentials: readonly BrokerCredential[]) {
    this.replace(credentials)
  }

  replace(credentials: readonly BrokerCredential[]): void {
    this.#known.clear()
    this.#identities = new Map(
      credentials.flatMap((each) => {
        if (!('subject' in each.proof)) return []
        const identity = identityOf(each)
        const { forwards, backwards } = each.proof.subject
        return [[forwards, identity] as const, [backwards, identity] as const]
      }),
    )
  }

  identify(_head: RequestHead, { clientCertificate: pem }: Pick<Peer, 'clientCertificate'>): Identity {
    if (pem === '') throw refuse('authentication_required', CERTIFICATE_REFUSED)
    let identity = this.#known.get(pem)
    if (identity === undefined) {
      identity = this.#identities.get(subjectOfCertificate(new X509Certificate(pem).subject)?.forwards ?? '') ?? null
      if (this.#known.size === KNOWN_MAX) this.#known.clear()
      this.#known.set(pem, identity)
    }
    if (identity === null) throw refuse('authentication_failed', CERTIFICATE_REFUSED)
    return identity
  }
}

const CERTIFICATE_REFUSED = 'the connection shows no client certificate whose subject this node knows'

/** For the other modes, if the listener has authorities for clients: callers must also show a certificate of one of them. */
export class CertifiedAccess implements Access {
  readonly #access: Access

  constructor(access: Access) {
    this.#access = access
  }

  identify(head: RequestHead, peer: Peer): Identity {
    if (peer.clientCertificate === '') {
      throw refuse(
        'authentication_required',
        'the connection shows no client certificate from an authority that this node trusts',
      )
    }
    return this.#access.identify(head, peer)
  }
}

const identityOf = ({ tenant, principal, grants }: BrokerCredential): Identity =>
  Object.freeze({ tenant, principal, grants: new Grants(grants.filter(isGrant)) })

const isGrant = (grant: BrokerCredential['grants'][number]): grant is Grant => isPermission(grant.permission)

/** Names of the headers in which a proxy names the caller, in lower case. */
export interface IdentityHeaders {
  readonly tenant: string
  readonly principal: string
  readonly permissions: string
}

const NAME = /^[\x21-\x7e]{1,256}$/

/** Mode `external`: A3. Permissions are separated by commas, each is a permission or `permission:stream`. */
export class ProxyAccess implements Access {
  readonly #headers: IdentityHeaders
  readonly #proxies: Pick<TrustedProxies, 'isTrusted'>

  constructor(headers: IdentityHeaders, proxies: Pick<TrustedProxies, 'isTrusted'>) {
    this.#headers = headers
    this.#proxies = proxies
  }

  identify(head: CredentialHead, peer: Peer): Identity {
    const tenant = head.header(this.#headers.tenant)
    const principal = head.header(this.#headers.principal)
    if (!this.#proxies.isTrusted(peer)) {
      if (tenant === '' && principal === '')
        throw refuse(
          'authentication_required',
          'this node takes requests through its proxy only: send the request there',
        )
      throw refuse(
        'authentication_failed',
        'the request names a caller, and does not come from a trusted proxy of this node',
      )
    }
    if (tenant === '' || principal === '') {
      throw refuse('authentication_required', 'the proxy did not name the caller')
    }
    const all = head.headers()
    for (const name of Object.values(this.#headers)) {
      if ((all.get(name) ?? '') !== head.header(name))
        throw refuse('authentication_failed', 'the proxy named the caller more than once')
    }
    if (!NAME.test(tenant) || !NAME.test(principal)) {
      throw refuse('authentication_failed', 'the names of tenant and principal have 1 to 256 printable characters')
    }
    return { tenant, principal, grants: this.#grantsOf(head.header(this.#headers.permissions)) }
  }

  #grantsOf(list: string): Grants {
    const grants = list.split(',').flatMap((each): Grant[] => {
      const [permission = '', ...stream] = each.trim().split(':')
      const pattern = stream.length === 0 ? null : stream.join(':') // names may have colons
      return isPermission(permission) && pattern !== '' ? [{ permission, stream: pattern }] : []
    })
    return new Grants(grants)
  }
}

/** The stream that a path names; empty: no stream can have that name. */
export function streamInPath(head: RequestHead): string {
  const name = head.param(0)
  return name !== null && isStreamName(name) ? name : ''
}
