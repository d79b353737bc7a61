/** Steps of the streaming connection on groups: pushed claims that wait, acknowledgements for several claims at once, leases given back. */
import assert from 'node:assert/strict'
import type { AckedPairs, Pushed, PushedClaim } from '../../../src/broker/operations.ts'
import { BrokerError } from '../../../src/broker/refusals.ts'
import { ID_BYTES } from '../../../src/broker/wire/connection-frames.ts'
import { putId } from '../../../src/client/streaming/ids.ts'
import { CALLER, jsonOf } from '../../support/broker-world.ts'
import { pick } from '../../support/random-history.ts'
import type { Expected } from './asking.ts'
import { DeliverySteps } from './delivery-steps.ts'
import type { ClaimAnswer, Held } from './delivery-steps.ts'

/** More than the records of any claim here take. */
const BYTES_MAX = 1 << 20
const NOTHING: ClaimAnswer = { subscription_id: '', deliveries: [], next_offset: 0, delivery_count: 0 }
/** Most deliveries in one acknowledgement. */
const PAIRS_MAX = 5
const RECENT = 12

interface Pair {
  readonly held: Held
  /** The delivery whose subscription the request names. */
  readonly by: Held
}

export class StreamingSteps extends DeliverySteps {
  /** Claims in the order in which they were pushed. */
  #pushed: PushedClaim[] = []
  /** By number of the operation: ends the wait of a push whose client is gone. */
  readonly #waiting = new Map<number, () => void>()

  override forget(areLost: boolean): void {
    super.forget(areLost)
    this.#waiting.clear()
    if (areLost) this.#pushed = []
  }

  push(name: string, groupName: string, c: number, fromOffset: boolean): void {
    const number = this.operations
    this.lease(name, groupName, c, fromOffset, true, async (path, { startOffset, max, timeoutMs: leaseMs }) => {
      const abandonedSignal = { onAbandoned: (listener: () => void) => void this.#waiting.set(number, listener) }
      const pin = { number: null, createdAtMs: null }
      const request = { pin, startOffset, max, leaseMs, bytesMax: BYTES_MAX, form: 'json' } as const
      const pushed = await new Promise<Pushed | null>((answered, refused) =>
        this.world.operations.push({ answered, refused }, CALLER, path, request, abandonedSignal),
      ).finally(() => this.#waiting.delete(number))
      if (pushed === null) return NOTHING
      this.#pushed.push(pushed.claim)
      return jsonOf<ClaimAnswer>(pushed.message)
    })
  }

  /** The client of a waiting push is gone. */
  abandon(a: number): void {
    const waiting = [...this.#waiting.values()]
    if (waiting.length > 0) pick(waiting, a)()
  }

  /** The client of some claims is gone. Deliveries that it settled or that expired stay as they are. */
  giveBack(a: number, b: number): void {
    const from = Math.max(0, this.#pushed.length - 1 - (a % RECENT))
    const claims = this.#pushed.splice(from, 1 + (b % 3))
    if (claims.length === 0) return
    this.ask<null>({
      name: 'give back',
      failure: 'queue_state_persistence_failed',
      run: () => new Promise((answered, refused) => this.world.operations.releaseClaims({ answered, refused }, claims)),
      expected: () => 'either',
      unconfirmed: true, // no client reads the answer, so it does not wait for earlier frames
      check: (_answer, frames) => {
        for (const { wasStored } of frames) assert.ok(wasStored, 'leases are given back when the disk says so')
        for (const { groupNumber, claimNumber, deliveries } of claims) {
          const { queue, isDeleted } = this.reference.groups[groupNumber]!
          if (isDeleted) continue
          for (const { offset, attempt } of deliveries) {
            const found = queue.find(offset, attempt, this.world.nowMs)
            const isLeased = found.kind === 'active' && found.claimNumber === claimNumber
            assert.ok(!isLeased, `offset ${offset} is still leased by a claim that was given back`)
          }
        }
      },
    })
  }

  ackPairs(a: number, b: number, c: number): void {
    const recent = this.held.slice(-RECENT)
    const first = recent[a % Math.max(1, recent.length)]
    if (first === undefined) return
    const pairs: Pair[] = Array.from({ length: 1 + (b % PAIRS_MAX) }, (_, i) => {
      const held = pick(recent, a + i)
      return { held, by: (c + i) % 7 === 0 ? first : held }
    })
    const { stream } = first
    const judged = (): Expected[] => {
      const seen = new Set<string>()
      return pairs.map(({ held, by }): Expected => {
        const delivery = `${held.groupNumber}/${held.offset}/${held.attempt}`
        if (seen.has(delivery)) return { code: 'lease_not_active' }
        if (held.stream !== stream || by.groupNumber !== held.groupNumber) return { code: 'delivery_not_found' }
        const standing = this.standing(held)
        if (standing === 'effect' && by.claimNumber !== held.claimNumber) return { code: 'delivery_not_found' }
        if (standing === 'effect') seen.add(delivery)
        return standing
      })
    }
    const standings = judged()
    this.ask<AckedPairs>({
      name: 'ack pairs',
      failure: 'queue_state_persistence_failed',
      run: () =>
        new Promise((answered, refused) =>
          this.world.operations.ackPairs({ answered, refused }, CALLER, stream, idsOf(pairs)),
        ),
      expected: () => {
        if (this.stream(stream) === undefined) return { code: 'missing_stream' }
        return judged().includes('effect') ? 'effect' : 'either'
      },
      check: ({ results }) =>
        assert.deepEqual(
          results.map((result) => (result instanceof BrokerError ? { code: result.code } : result)),
          standings.map((standing, i) => {
            const { group, offset, attempt } = pairs[i]!.held
            return standing === 'effect' ? { group, offset, attempt } : standing
          }),
        ),
    })
  }
}

function idsOf(pairs: readonly Pair[]): Uint8Array {
  const ids = new Uint8Array(2 * ID_BYTES * pairs.length)
  for (const [i, { held, by }] of pairs.entries()) {
    assert.ok(putId('sub-', by.subscriptionId, ids, 2 * ID_BYTES * i))
    assert.ok(putId('dlv-', held.deliveryId, ids, 2 * ID_BYTES * i + ID_BYTES))
  }
  return ids
}
