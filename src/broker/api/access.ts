/**
 * Who asks, and whether they may.
 *
 * A1  where credentials are asked for, they come before everything else: whoever has none learns nothing but that
 * A2  a key is looked up by its digest: how long that takes says nothing of the keys there are. Unknown and wrong are one answer. Headers that
 *     were right are remembered as a whole, as a digest costs a tenth of a publish
 * A3  what a proxy says of its client counts only when the other end of the connection is a trusted proxy, and once: a proxy that adds its header
 *     to that of its client is not believed
 */
import { hash } from 'node:crypto'
import type { BrokerKey } from '../../config/broker-credentials.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import type { TrustedProxies } from '../../http/trusted-proxies.ts'
import { ALL_GRANTS, Grants, isPermission } from '../grants.ts'
import type { Grant } from '../grants.ts'
import { isStreamName } from '../names.ts'
import type { Caller } from '../operations.ts'
import { refuse } from '../refusals.ts'

/** A caller, with what they may do. */
export interface Identity extends Caller {
  readonly grants: Grants
}

/** What is asked of the head of a request. */
export type CredentialHead = Pick<RequestHead, 'header' | 'headers'>

type Peer = Pick<Exchange, 'remoteAddress'>

export interface Access {
  /** Whether it is somebody at all. @throws BrokerError authentication_required, authentication_failed */
  identify(head: CredentialHead, peer: Peer): Identity
}

/** Everybody, as `caller`. */
export const openAccess = (caller: Caller): Access => {
  const identity = { ...caller, grants: ALL_GRANTS }
  return { identify: () => identity }
}

const KNOWN_MAX = 1000
const SCHEME = /^Bearer ([\x21-\x7e]{1,512})$/i

/** Mode `api-key`. */
export class KeyAccess implements Access {
  #identities: ReadonlyMap<string, Identity> = new Map()
  /** By the header, of those that were right. */
  readonly #known = new Map<string, Identity>()

  constructor(keys: readonly BrokerKey[]) {
    this.replace(keys)
  }

  replace(keys: readonly BrokerKey[]): void {
    this.#known.clear()
    this.#identities = new Map(
      keys.map(({ keySha256, tenant, principal, grants }) => [
        keySha256,
        Object.freeze({ tenant, principal, grants: new Grants(grants.filter(isGrant)) }),
      ]),
    )
  }

  /** A2 */
  identify(head: CredentialHead): Identity {
    const given = head.header('authorization')
    const known = this.#known.get(given)
    if (known !== undefined) return known
    if (given === '') throw refuse('authentication_required', 'the request has no Authorization: Bearer …')
    const key = SCHEME.exec(given)?.[1]
    const identity = key === undefined ? undefined : this.#identities.get(hash('sha256', key))
    if (identity === undefined) throw refuse('authentication_failed', 'the key is none of this node')
    if (this.#known.size === KNOWN_MAX) this.#known.clear()
    this.#known.set(given, identity)
    return identity
  }
}

const isGrant = (grant: BrokerKey['grants'][number]): grant is Grant => isPermission(grant.permission)

/** Names of the headers in which a proxy says for whom it asks, in lower case. */
export interface IdentityHeaders {
  readonly tenant: string
  readonly principal: string
  readonly permissions: string
}

const NAME = /^[\x21-\x7e]{1,256}$/

/** Mode `external`: A3. Permissions are a list with commas, each a permission or `permission:stream`. */
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
        throw refuse('authentication_required', 'ask by way of the proxy of this node')
      throw refuse('authentication_failed', 'the address is none of the trusted proxies of this node')
    }
    if (tenant === '' || principal === '') {
      throw refuse('authentication_required', 'the proxy did not say for whom it asks')
    }
    const all = head.headers()
    for (const name of Object.values(this.#headers)) {
      if ((all.get(name) ?? '') !== head.header(name))
        throw refuse('authentication_failed', 'the proxy said more than once for whom it asks')
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

/** The stream that a path is about, if it can be one. */
export function streamAsked(head: RequestHead): string {
  const name = head.param(0)
  return name !== null && isStreamName(name) ? name : ''
}
