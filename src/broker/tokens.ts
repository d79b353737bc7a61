/**
 * Delivery and subscription ids: what they name, sealed into one AES-128 block each.
 *
 *   offset  bytes  field
 *        0      4  group    u32, number of the consumer group
 *        4      6  number   u48, offset of the record; in a subscription id, number of the claim
 *       10      4  attempt  u32; in a subscription id, 0
 *       14      2  kind     u16
 *
 * T1  an id cannot be guessed: without the key, a block that opens to a delivery that exists is as good as random among 2^128
 * T2  ids cost no memory, and stay valid over restarts: the key is kept in the log
 * T3  all ids of a request or answer go through the cipher in one call, because a call costs twenty times as much as a block
 */
import assert from 'node:assert/strict'
import { createCipheriv, createDecipheriv } from 'node:crypto'
import { DELIVERY_PREFIX, SUBSCRIPTION_PREFIX } from './wire/connection-frames.ts'

export const TOKEN_KEY_BYTES = 16

/** Length of an id without its prefix. */
export const BLOCK_BYTES = 16
const KIND_DELIVERY = 1
const KIND_SUBSCRIPTION = 2
/** 16 bytes in base64url. */
const BLOCK = /^[A-Za-z0-9_-]{21}[AQgw]$/

export interface Leased {
  readonly offset: number
  readonly attempt: number
}

export interface DeliveryName extends Leased {
  readonly groupNumber: number
}

export interface SubscriptionName {
  readonly groupNumber: number
  readonly claimNumber: number
}

export interface ClaimIds {
  readonly subscriptionId: string
  /** Ids of the deliveries, in their order. */
  readonly deliveryIds: readonly string[]
}

/** Null: not one of ours. */
export interface OpenedPair {
  readonly subscription: SubscriptionName | null
  readonly delivery: DeliveryName | null
}

/** Null: not one of ours. */
export interface Opened {
  readonly subscription: SubscriptionName | null
  readonly deliveries: readonly (DeliveryName | null)[]
}

export class Tokens {
  // ECB over blocks that never repeat under one key is a plain permutation of them, which is what T1 needs.
  readonly #seal
  readonly #open

  constructor(key: Uint8Array) {
    assert(key.byteLength === TOKEN_KEY_BYTES)
    this.#seal = createCipheriv('aes-128-ecb', key, null).setAutoPadding(false)
    this.#open = createDecipheriv('aes-128-ecb', key, null).setAutoPadding(false)
  }

  subscription(groupNumber: number, claimNumber: number): string {
    return this.claim(groupNumber, claimNumber, []).subscriptionId
  }

  /** Ids of many claims of a group (T3). */
  subscriptions(groupNumber: number, claimNumbers: readonly number[]): string[] {
    const blocks = Buffer.allocUnsafe(claimNumbers.length * BLOCK_BYTES)
    claimNumbers.forEach((number, i) => putBlock(blocks, i * BLOCK_BYTES, groupNumber, number, 0, KIND_SUBSCRIPTION))
    const sealed = this.#seal.update(blocks)
    return claimNumbers.map((_, i) => SUBSCRIPTION_PREFIX + textOf(sealed, i * BLOCK_BYTES))
  }

  delivery(groupNumber: number, offset: number, attempt: number): string {
    return this.claim(groupNumber, 0, [{ offset, attempt }]).deliveryIds[0]!
  }

  claim(groupNumber: number, claimNumber: number, leases: readonly Leased[]): ClaimIds {
    const sealed = this.claimBlocks(groupNumber, claimNumber, leases)
    return {
      subscriptionId: SUBSCRIPTION_PREFIX + textOf(sealed, 0),
      deliveryIds: leases.map((_, i) => DELIVERY_PREFIX + textOf(sealed, deliveryAt(i))),
    }
  }

  /** The ids of a claim without their prefixes and as bytes: that of the subscription, then those of the deliveries. */
  claimBlocks(groupNumber: number, claimNumber: number, leases: readonly Leased[]): Buffer {
    const blocks = Buffer.allocUnsafe((1 + leases.length) * BLOCK_BYTES)
    putBlock(blocks, 0, groupNumber, claimNumber, 0, KIND_SUBSCRIPTION)
    leases.forEach(({ offset, attempt }, i) =>
      putBlock(blocks, deliveryAt(i), groupNumber, offset, attempt, KIND_DELIVERY),
    )
    return this.#seal.update(blocks)
  }

  /** @param sealed pairs of blocks, one of a subscription and one of a delivery */
  openPairs(sealed: Uint8Array): readonly OpenedPair[] {
    const blocks = this.#open.update(sealed)
    return Array.from({ length: blocks.byteLength / (2 * BLOCK_BYTES) }, (_, i) => ({
      subscription: readSubscription(blocks, 2 * i * BLOCK_BYTES),
      delivery: readDelivery(blocks, (2 * i + 1) * BLOCK_BYTES),
    }))
  }

  open(subscriptionId: string, deliveryIds: readonly string[]): Opened {
    const sealed = Buffer.allocUnsafe((1 + deliveryIds.length) * BLOCK_BYTES)
    const subscriptionFits = putText(sealed, 0, subscriptionId, SUBSCRIPTION_PREFIX)
    const fit = deliveryIds.map((id, i) => putText(sealed, deliveryAt(i), id, DELIVERY_PREFIX))
    const blocks = this.#open.update(sealed)
    return {
      subscription: subscriptionFits ? readSubscription(blocks, 0) : null,
      deliveries: fit.map((fits, i) => (fits ? readDelivery(blocks, deliveryAt(i)) : null)),
    }
  }
}

/** Where the block of that delivery starts; the subscription's block is the first. */
function deliveryAt(index: number): number {
  return (1 + index) * BLOCK_BYTES
}

function putBlock(blocks: Buffer, at: number, group: number, number: number, attempt: number, kind: number): void {
  blocks.writeUInt32LE(group, at)
  blocks.writeUIntLE(number, at + 4, 6)
  blocks.writeUInt32LE(attempt, at + 10)
  blocks.writeUInt16LE(kind, at + 14)
}

function readSubscription(blocks: Buffer, at: number): SubscriptionName | null {
  if (blocks.readUInt16LE(at + 14) !== KIND_SUBSCRIPTION) return null
  return { groupNumber: blocks.readUInt32LE(at), claimNumber: blocks.readUIntLE(at + 4, 6) }
}

function readDelivery(blocks: Buffer, at: number): DeliveryName | null {
  if (blocks.readUInt16LE(at + 14) !== KIND_DELIVERY) return null
  return {
    groupNumber: blocks.readUInt32LE(at),
    offset: blocks.readUIntLE(at + 4, 6),
    attempt: blocks.readUInt32LE(at + 10),
  }
}

function textOf(sealed: Buffer, at: number): string {
  return sealed.toString('base64url', at, at + BLOCK_BYTES)
}

/** @returns false, and writes nothing, when the id is not one of ours */
function putText(sealed: Buffer, at: number, id: string, prefix: string): boolean {
  const text = id.slice(prefix.length)
  const fits = id.startsWith(prefix) && BLOCK.test(text)
  if (fits) sealed.write(text, at, 'base64url')
  return fits
}
