/**
 * Delivery and subscription ids: what they name, sealed into one AES-128 block each.
 *
 *   offset  bytes  field
 *        0      4  group    u32, number of the consumer group
 *        4      6  number   u48, offset of the record; of a subscription, number of the claim
 *       10      4  attempt  u32; of a subscription 0
 *       14      2  kind     u16
 *
 * T1  an id cannot be guessed: without the key, a block that opens to a delivery that exists is as good as random among 2^128
 * T2  ids cost no memory, and stay valid over restarts: the key is kept in the log
 */
import assert from 'node:assert/strict'
import { createCipheriv, createDecipheriv } from 'node:crypto'

export const TOKEN_KEY_BYTES = 16

const BLOCK_BYTES = 16
const KIND_DELIVERY = 1
const KIND_SUBSCRIPTION = 2
const DELIVERY_PREFIX = 'dlv-'
const SUBSCRIPTION_PREFIX = 'sub-'
/** 16 bytes in base64url. */
const BLOCK = /^[A-Za-z0-9_-]{21}[AQgw]$/

export interface DeliveryName {
  readonly groupNumber: number
  readonly offset: number
  readonly attempt: number
}

export interface SubscriptionName {
  readonly groupNumber: number
  readonly claimNumber: number
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

  delivery(groupNumber: number, offset: number, attempt: number): string {
    return DELIVERY_PREFIX + this.#sealed(blockOf(groupNumber, offset, attempt, KIND_DELIVERY))
  }

  subscription(groupNumber: number, claimNumber: number): string {
    return SUBSCRIPTION_PREFIX + this.#sealed(blockOf(groupNumber, claimNumber, 0, KIND_SUBSCRIPTION))
  }

  /** Null: not one of ours. */
  openDelivery(id: string): DeliveryName | null {
    const block = this.#opened(id, DELIVERY_PREFIX, KIND_DELIVERY)
    if (block === null) return null
    return { groupNumber: block.readUInt32LE(0), offset: block.readUIntLE(4, 6), attempt: block.readUInt32LE(10) }
  }

  /** Null: not one of ours. */
  openSubscription(id: string): SubscriptionName | null {
    const block = this.#opened(id, SUBSCRIPTION_PREFIX, KIND_SUBSCRIPTION)
    return block && { groupNumber: block.readUInt32LE(0), claimNumber: block.readUIntLE(4, 6) }
  }

  #sealed(block: Buffer): string {
    return this.#seal.update(block).toString('base64url')
  }

  #opened(id: string, prefix: string, kind: number): Buffer | null {
    const text = id.slice(prefix.length)
    if (!id.startsWith(prefix) || !BLOCK.test(text)) return null
    const block = this.#open.update(Buffer.from(text, 'base64url'))
    return block.readUInt16LE(14) === kind ? block : null
  }
}

function blockOf(group: number, number: number, attempt: number, kind: number): Buffer {
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  block.writeUInt32LE(group, 0)
  block.writeUIntLE(number, 4, 6)
  block.writeUInt32LE(attempt, 10)
  block.writeUInt16LE(kind, 14)
  return block
}
