import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { TOKEN_KEY_BYTES, Tokens } from '../../src/broker/tokens.ts'

const key = (fill: number): Uint8Array => new Uint8Array(TOKEN_KEY_BYTES).fill(fill)
const tokens = new Tokens(key(1))
const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const u48 = fc.oneof(fc.integer({ min: 0, max: 2 ** 48 - 1 }), fc.constantFrom(0, 2 ** 32, 2 ** 48 - 1))
const openDelivery = (id: string, by = tokens): unknown => by.open('', [id]).deliveries[0]
const openSubscription = (id: string, by = tokens): unknown => by.open(id, []).subscription
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

describe('delivery and subscription ids', () => {
  it('open to what they name, for whoever has the key (T2)', () => {
    fc.assert(
      fc.property(u32, u48, u32, (groupNumber, number, attempt) => {
        const delivery = tokens.delivery(groupNumber, number, attempt)
        const subscription = tokens.subscription(groupNumber, number)
        assert.match(delivery, /^dlv-[A-Za-z0-9_-]{22}$/)
        assert.match(subscription, /^sub-[A-Za-z0-9_-]{22}$/)
        const later = new Tokens(key(1))
        assert.deepEqual(openDelivery(delivery, later), { groupNumber, offset: number, attempt })
        assert.deepEqual(openSubscription(subscription, later), { groupNumber, claimNumber: number })
      }),
    )
  })

  it('open together as they do alone, with the bad ones among them, and are sealed together as alone (T3)', () => {
    const leases = fc.array(fc.record({ offset: u48, attempt: u32, known: fc.boolean() }, { noNullPrototype: true }))
    fc.assert(
      fc.property(u32, u48, leases, fc.boolean(), (groupNumber, claimNumber, given, known) => {
        const { subscriptionId, deliveryIds } = tokens.claim(groupNumber, claimNumber, given)
        assert.equal(subscriptionId, tokens.subscription(groupNumber, claimNumber))
        assert.deepEqual(
          deliveryIds,
          given.map(({ offset, attempt }) => tokens.delivery(groupNumber, offset, attempt)),
        )
        const opened = tokens.open(
          known ? subscriptionId : 'sub-?',
          deliveryIds.map((id, i) => (given[i]!.known ? id : `?${id}`)),
        )
        assert.deepEqual(opened, {
          subscription: known ? { groupNumber, claimNumber } : null,
          deliveries: given.map(({ offset, attempt, known }) => (known ? { groupNumber, offset, attempt } : null)),
        })
      }),
    )
  })

  it('are not one another, whatever they are called', () => {
    const delivery = tokens.delivery(1, 2, 0)
    const subscription = tokens.subscription(1, 2)
    assert.equal(openSubscription(`sub-${delivery.slice(4)}`), null)
    assert.equal(openDelivery(`dlv-${subscription.slice(4)}`), null)
    assert.equal(openDelivery(subscription), null)
    assert.equal(openSubscription(delivery), null)
  })

  it('mean nothing under another key', () => {
    assert.notEqual(new Tokens(key(2)).delivery(1, 2, 3), tokens.delivery(1, 2, 3))
    const opened = openDelivery(tokens.delivery(1, 2, 3), new Tokens(key(2)))
    assert.notDeepEqual(opened, { groupNumber: 1, offset: 2, attempt: 3 })
  })

  it('say nothing of each other: neighbours differ in about half of their bits (T1)', () => {
    const bitsOf = (id: string): bigint => BigInt(`0x${Buffer.from(id.slice(4), 'base64url').toString('hex')}`)
    let differing = 0
    const pairs = 400
    for (let offset = 0; offset < pairs; offset += 1) {
      const difference = bitsOf(tokens.delivery(1, offset, 1)) ^ bitsOf(tokens.delivery(1, offset + 1, 1))
      differing += difference.toString(2).replaceAll('0', '').length
    }
    assert.ok(Math.abs(differing / pairs - 64) < 3, `${differing / pairs} of 128 bits`)
  })

  it('do not open when a character was changed, but to what does not exist', () => {
    const id = tokens.delivery(1, 2, 3)
    for (let at = 4; at < id.length; at += 1) {
      for (const character of ALPHABET) {
        if (id[at] === character) continue
        const forged = id.slice(0, at) + character + id.slice(at + 1)
        const opened = tokens.open('', [forged]).deliveries[0]!
        if (opened !== null) assert.ok(opened.groupNumber > 1000, 'a guess is as good as random')
      }
    }
  })

  it('are refused when they are anything else', () => {
    const id = tokens.delivery(1, 2, 3)
    const body = id.slice(4)
    const bad = [
      '',
      'dlv-',
      body,
      `dlv-${body}A`,
      `dlv-${body.slice(1)}`,
      `DLV-${body}`,
      ` ${id}`,
      `${id}\n`,
      `${id}==`,
    ]
    const notCanonical = Array.from(ALPHABET)
      .filter((last) => !'AQgw'.includes(last))
      .map((last) => id.slice(0, -1) + last)
    for (const each of [...bad, ...notCanonical, 'dlv-!!!!!!!!!!!!!!!!!!!!!!']) {
      assert.equal(openDelivery(each), null)
      assert.equal(openSubscription(each), null)
    }
    fc.assert(fc.property(fc.string(), (text) => openDelivery(text) === null))
  })
})
