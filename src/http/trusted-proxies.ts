/**
 * The client of a request: the other end of the connection, or the client that a trusted proxy names. `x-forwarded-…` headers
 * count only if the other end is in the operator's list, because any client can send them.
 *
 * P1  the client is the last address of `x-forwarded-for` that is not a trusted proxy itself: each proxy adds the address that it sees, and
 *     earlier entries are the client's own claim. An entry that is no address ends the search
 * P2  of several values of `x-forwarded-proto` the last one counts, for the same reason
 */
import { BlockList, isIP } from 'node:net'
import { canonicalAddress, hostOf } from '../addresses.ts'
import type { AddressBlock } from '../addresses.ts'
import type { Exchange } from './exchange.ts'

type Headers = ReadonlyMap<string, string>
type Peer = Pick<Exchange, 'remoteAddress'>
type SecuredPeer = Peer & Pick<Exchange, 'isSecure'>

export class TrustedProxies {
  readonly #blocks = new BlockList()
  readonly #isEmpty: boolean

  constructor(blocks: readonly AddressBlock[]) {
    this.#isEmpty = blocks.length === 0
    for (const { network, prefixBits } of blocks) this.#blocks.addSubnet(network, prefixBits, familyOf(network))
  }

  /** True when the client used TLS, to the proxy or directly to this server. */
  isSecure(peer: SecuredPeer, headers: Headers): boolean {
    const proto = headers.get('x-forwarded-proto')
    if (proto === undefined || this.#isEmpty || !this.isTrusted(peer)) return peer.isSecure
    return entriesOf(proto).at(-1)?.toLowerCase() === 'https'
  }

  /** True when the other end of the connection is a trusted proxy. */
  isTrusted(peer: Peer): boolean {
    return this.#isTrusted(canonicalAddress(peer.remoteAddress))
  }

  /** IP address of the client; '' once the request is answered. */
  addressOf(peer: Peer, headers: Headers): string {
    let address = canonicalAddress(peer.remoteAddress) ?? ''
    const entries = entriesOf(headers.get('x-forwarded-for') ?? '')
    while (entries.length > 0 && this.#isTrusted(address)) {
      const next = addressIn(entries.pop()!)
      if (next === null) break
      address = next
    }
    return address // P1
  }

  #isTrusted(address: string | null): boolean {
    return !this.#isEmpty && !!address && this.#blocks.check(address, familyOf(address))
  }
}

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 4 ? 'ipv4' : 'ipv6')

const entriesOf = (list: string): string[] => list.split(',').map((entry) => entry.trim())

/** Some proxies add the port of the client. */
const addressIn = (entry: string): string | null => canonicalAddress(entry) ?? canonicalAddress(hostOf(entry) ?? '')
