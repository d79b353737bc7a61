import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { addressBlock, canonicalAddress } from '../../src/addresses.ts'
import { TrustedProxies } from '../../src/http/trusted-proxies.ts'

const proxiesOf = (...blocks: readonly string[]): TrustedProxies =>
  new TrustedProxies(blocks.map((block) => addressBlock(block)!))

const headersOf = (headers: Readonly<Record<string, string>>): ReadonlyMap<string, string> =>
  new Map(Object.entries(headers))
const from = (remoteAddress: string, isSecure = false) => ({ remoteAddress, isSecure })

describe('a connection of TLS', () => {
  const said = (proto: string): ReadonlyMap<string, string> => headersOf({ 'x-forwarded-proto': proto })

  it('is secure by itself; of its client a trusted proxy knows better', () => {
    const proxies = proxiesOf('10.0.0.1')
    for (const headers of [headersOf({}), said('http'), said('https')]) {
      assert.equal(proxies.isSecure(from('9.9.9.9', true), headers), true)
      assert.equal(proxiesOf().isSecure(from('10.0.0.1', true), headers), true)
    }
    assert.equal(proxies.isSecure(from('10.0.0.1', true), headersOf({})), true)
    assert.equal(proxies.isSecure(from('10.0.0.1', true), said('http')), false)
    assert.equal(proxies.isSecure(from('10.0.0.1', true), said('https')), true)
  })
})

describe('forwarded headers', () => {
  const claims = headersOf({ 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.7' })

  it('count for nothing without trusted proxies', () => {
    const none = proxiesOf()
    for (const peer of ['127.0.0.1', '10.0.0.1', '0000:0000:0000:0000:0000:0000:0000:0001']) {
      assert.equal(none.isSecure(from(peer), claims), false)
      assert.equal(none.addressOf(from(peer), claims), canonicalAddress(peer))
    }
  })

  it('count from addresses of the list only: single ones, blocks, IPv4 that is mapped into IPv6 on either side', () => {
    assert.equal(proxiesOf('0.0.0.0/0').isSecure(from('9.9.9.9'), claims), true)
    const proxies = proxiesOf('10.1.0.0/16', '192.168.1.5', '2001:db8::/32', '::ffff:172.16.0.0/108', '::1')
    const trusted = ['10.1.2.3', '192.168.1.5', '2001:0db8:0000:0000:0000:0000:0000:0005', '172.16.9.9']
    const mapped = ['0000:0000:0000:0000:0000:ffff:0a01:0203', '0000:0000:0000:0000:0000:0000:0000:0001']
    for (const peer of [...trusted, ...mapped]) {
      assert.equal(proxies.isSecure(from(peer), claims), true, peer)
      assert.equal(proxies.addressOf(from(peer), claims), '192.0.2.7', peer)
    }
    const others = ['10.2.0.1', '192.168.1.6', '2001:0db9:0000:0000:0000:0000:0000:0005', '127.0.0.1', '172.32.0.1']
    for (const peer of [...others, '']) {
      assert.equal(proxies.isSecure(from(peer), claims), false, peer)
      assert.equal(proxies.addressOf(from(peer), claims), canonicalAddress(peer) ?? '', peer)
    }
  })

  it('name the client before the trusted proxies, not what it claims itself', () => {
    const proxies = proxiesOf('10.0.0.0/8')
    const clientOf = (list: string) => proxies.addressOf(from('10.0.0.1'), headersOf({ 'x-forwarded-for': list }))
    assert.equal(clientOf('1.1.1.1, 192.0.2.7'), '192.0.2.7')
    assert.equal(clientOf('1.1.1.1,192.0.2.7 , 10.0.0.2,10.9.9.9'), '192.0.2.7')
    assert.equal(clientOf('10.0.0.3'), '10.0.0.3')
    assert.equal(clientOf('192.0.2.7:4711'), '192.0.2.7')
    assert.equal(clientOf('[2001:db8::7]:4711'), '2001:db8::7')
    assert.equal(clientOf('1.1.1.1, unknown'), '10.0.0.1')
    assert.equal(clientOf(''), '10.0.0.1')
  })

  it('say https by their last value', () => {
    const proxies = proxiesOf('10.0.0.0/8')
    const isSecure = (proto: string) => proxies.isSecure(from('10.0.0.1'), headersOf({ 'x-forwarded-proto': proto }))
    assert.deepEqual(['https', 'HTTPS', 'http, https', 'https,http', 'http', ''].map(isSecure), [
      true,
      true,
      true,
      false,
      false,
      false,
    ])
    assert.equal(proxies.isSecure(from('10.0.0.1'), headersOf({})), false)
  })

  it('never make an address of the client’s own claims that no trusted proxy saw', () => {
    const proxies = proxiesOf('10.0.0.0/8')
    const address = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string())
    fc.assert(
      fc.property(
        fc.array(address, { maxLength: 4 }),
        fc.ipV4().filter((ip) => !ip.startsWith('10.')),
        (claimed, seen) => {
          const list = [...claimed, seen, '10.0.0.2'].join(',')
          assert.equal(proxies.addressOf(from('10.0.0.1'), headersOf({ 'x-forwarded-for': list })), seen)
          assert.equal(proxies.addressOf(from(seen), headersOf({ 'x-forwarded-for': list })), seen)
        },
      ),
    )
  })
})

describe('addresses', () => {
  it('have one form', () => {
    assert.equal(canonicalAddress('::FFFF:7F00:1'), '127.0.0.1')
    assert.equal(canonicalAddress('0000:0000:0000:0000:0000:ffff:c0a8:0105'), '192.168.1.5')
    assert.equal(canonicalAddress('2001:DB8:0:0::1'), '2001:db8::1')
    assert.equal(canonicalAddress('fe80::1%eth0'), 'fe80::1')
    for (const text of ['', 'localhost', '127.1', '1.2.3.4.5', '::g', '[::1]'])
      assert.equal(canonicalAddress(text), null)
  })

  it('are blocks with a prefix that fits', () => {
    assert.deepEqual(addressBlock('10.0.0.0/8'), { network: '10.0.0.0', prefixBits: 8 })
    assert.deepEqual(addressBlock('::1'), { network: '::1', prefixBits: 128 })
    assert.deepEqual(addressBlock('::ffff:10.0.0.0/104'), { network: '10.0.0.0', prefixBits: 8 })
    for (const text of [
      '10.0.0.0/33',
      '::/129',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      '::ffff:10.0.0.0/8',
      'a/8',
      '',
      '/8',
      '10.0.0.0/-1',
    ]) {
      assert.equal(addressBlock(text), null, text)
    }
  })
})
