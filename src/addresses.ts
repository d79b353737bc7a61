/** Hosts and IP addresses as settings, headers and sockets write them. */
import { isIP } from 'node:net'

/** Addresses whose first `prefixBits` bits are those of `network`. */
export interface AddressBlock {
  /** As `canonicalAddress` gives it. */
  readonly network: string
  readonly prefixBits: number
}

const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/
const MAPPED_PREFIX_BITS = 96

/**
 * The canonical form of an address, in which addresses are compared: IPv4 and IPv4-mapped IPv6 in four decimal groups, other IPv6 as RFC 5952
 * shortens it, without a zone. Null: no address.
 */
export function canonicalAddress(text: string): string | null {
  const family = isIP(text)
  if (family !== 6) return family === 4 ? text : null
  const short = new URL(`http://[${text.replace(/%.*/s, '')}]`).hostname.slice(1, -1)
  const [, high, low] = MAPPED.exec(short) ?? []
  if (high === undefined || low === undefined) return short
  const bits = [high, low].map((group) => Number.parseInt(group, 16))
  return bits.flatMap((group) => [group >> 8, group & 0xff]).join('.')
}

/** An address, or a block in CIDR notation. Null: neither. */
export function addressBlock(text: string): AddressBlock | null {
  const [, address = '', prefix] = /^([^/]*)(?:\/([0-9]{1,3}))?$/.exec(text) ?? []
  const network = canonicalAddress(address)
  if (network === null) return null
  const bits = isIP(network) === 4 ? 32 : 128
  if (prefix === undefined) return { network, prefixBits: bits }
  const isMapped = isIP(address) === 6 && bits === 32
  const prefixBits = Number(prefix) - (isMapped ? MAPPED_PREFIX_BITS : 0)
  return prefixBits >= 0 && prefixBits <= bits ? { network, prefixBits } : null
}

/** A name or an IPv4 address, or an IPv6 address in brackets; perhaps with a port. */
const AUTHORITY = /^([\w.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/i
const PORT_MAX = 65_535

/** The host of a Host header or an origin, in lower case, an address in its canonical form. Null: no authority at all. */
export function hostOf(authority: string): string | null {
  if (authority !== readLast) {
    readLast = authority
    hostRead = hostIn(authority)
  }
  return hostRead
}

/** The last authority that was read, and its host: most requests carry the same one. */
let readLast = ''
let hostRead: string | null = null

function hostIn(authority: string): string | null {
  const [, host, port] = AUTHORITY.exec(authority) ?? []
  if (host === undefined || Number(port ?? 0) > PORT_MAX) return null
  if (host.startsWith('[')) return canonicalAddress(host.slice(1, -1))
  return host.toLowerCase()
}

/** A name with the dot of the DNS root behind it is the same name. */
export const withoutRootDot = (host: string): string => (host.endsWith('.') ? host.slice(0, -1) : host)

/** True when only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  const name = canonicalAddress(host) ?? host.toLowerCase()
  return name === 'localhost' || name === '::1' || (isIP(name) === 4 && name.startsWith('127.'))
}
