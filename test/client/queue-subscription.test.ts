import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { FrameReader } from '../../src/broker/wire/connection-frames.ts'
import { SdkError } from '../../src/client/index.ts'
import type {
  ClaimedDeliveries,
  Delivery,
  QueueSubscription,
  QueueSubscriptionOptions,
} from '../../src/client/index.ts'
import { HeldLeases } from '../../src/client/leases.ts'
import { ClaimingSubscription } from '../../src/client/queue-subscription.ts'
import type { QueueClient } from '../../src/client/queue-subscription.ts'
import { PushedClaims } from '../../src/client/streaming/pushed-claims.ts'
import type { Pending, PushTarget } from '../../src/client/streaming/stream.ts'
import { nextTurn } from '../support/next-turn.ts'

const LEASE_MS = 8000

/** A broker whose time the test moves. Its claims have these numbers of deliveries; the claim after them stops the subscription. */
class Queue {
  nowMs = 0
  claimed = 0
  readonly bodies: object[] = []
  readonly acked: number[] = []
  readonly nacked: number[] = []
  readonly givenBack: number[] = []
  readonly renewed: (readonly [offset: number, byMs: number])[] = []
  readonly lost: (readonly [offset: number, code: string])[] = []
  readonly stop = new AbortController()
  readonly closing = new AbortController()
  readonly #sizes: number[]
  #timers: { readonly atMs: number; readonly run: () => void }[] = []
  /** Codes that refuse renewals, by offset. */
  readonly refusals = new Map<number, string>()
  /** Errors of the next acknowledgements. */
  readonly ackFailures: SdkError[] = []

  constructor(...sizes: readonly number[]) {
    this.#sizes = [...sizes]
  }

  readonly leases = new HeldLeases()
  readonly client = {
    claimQueue: async (_stream: string, _group: string, body: { max_messages?: number } = {}) => {
      this.bodies.push(body)
      const size = this.#sizes.shift()
      if (size === undefined) this.stop.abort()
      const count = Math.min(size ?? 0, body.max_messages ?? 1)
      const deliveries = Array.from({ length: count }, () => {
        const offset = this.claimed++
        return { offset, delivery_id: `dlv-${offset}`, lease_remaining_millis: LEASE_MS } as Delivery // the subscription reads nothing else
      })
      return { deliveries } as unknown as ClaimedDeliveries
    },
    renewLease: async (
      { delivery_id }: { delivery_id: string },
      { extend_by_millis }: { extend_by_millis: number },
    ) => {
      const offset = Number(delivery_id.slice(4))
      const code = this.refusals.get(offset)
      if (code !== undefined) throw new SdkError('HttpBroker', code, 'no')
      this.renewed.push([offset, extend_by_millis])
      return { lease: { lease_remaining_millis: LEASE_MS } }
    },
    ack: (delivery: Delivery) =>
      this.leases.settling([delivery], async () => {
        const failure = this.ackFailures.shift()
        if (failure) throw failure
        return void this.acked.push(delivery.offset)
      }),
    nack: (delivery: Delivery) => this.leases.settling([delivery], async () => void this.nacked.push(delivery.offset)),
    retryDelivery: (delivery: Delivery) =>
      this.leases.settling([delivery], async () => void this.givenBack.push(delivery.offset)),
  } as unknown as QueueClient // the subscription does not read what the answers leave out

  subscribe(options: QueueSubscriptionOptions = {}): QueueSubscription {
    return new ClaimingSubscription(() => ({
      client: this.client,
      stream: 'orders',
      group: 'workers',
      options: {
        max_messages: 3,
        lease_timeout_millis: LEASE_MS,
        onLeaseLost: ({ offset }, { code }) => this.lost.push([offset, code]),
        ...options,
      },
      retrying: async (attempt, isWorthIt = ({ retryable }) => retryable, until = this.stop.signal) => {
        for (;;) {
          try {
            return await attempt()
          } catch (error) {
            if (!(error instanceof SdkError && isWorthIt(error)) || until.aborted) throw error
          }
        }
      },
      timers: {
        nowMs: () => this.nowMs,
        wait: (delayMs, run) => {
          const timer = { atMs: this.nowMs + delayMs, run }
          this.#timers.push(timer)
          return () => (this.#timers = this.#timers.filter((each) => each !== timer))
        },
      },
      leases: this.leases,
      stop: this.stop.signal,
      closing: this.closing.signal,
      claimId: null,
    }))
  }

  get timers(): number {
    return this.#timers.length
  }

  async pass(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms
    for (;;) {
      const due = this.#timers.filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)[0]
      if (due === undefined) break
      this.#timers = this.#timers.filter((each) => each !== due)
      this.nowMs = due.atMs
      due.run()
      await nextTurn()
    }
    this.nowMs = untilMs
  }
}

/** A queue whose deliveries the test pushes. */
class PushingQueue extends Queue {
  readonly requests: object[] = []
  readonly #pending: Pending[] = []
  target: PushTarget | null = null

  constructor() {
    super()
    const claims = new PushedClaims(
      {
        request: (text, pending) => {
          this.requests.push(JSON.parse(text) as object) // made by the subscription
          return this.#pending.push(pending)
        },
        listen: (_id, target) => void (this.target = target),
        unlisten: () => void (this.target = null),
      },
      'orders',
      'workers',
    )
    Object.assign(this.client, { pushed: claims })
    this.client.claimQueue = (_stream, _group, body = {}, options = {}) => claims.claim(body, options)
  }

  push(count: number): void {
    const deliveries = Array.from({ length: count }, () => {
      const offset = this.claimed++
      return { offset, delivery_id: `dlv-${offset}`, lease_remaining_millis: LEASE_MS } as Delivery // the subscription reads nothing else
    })
    this.target?.delivered(deliveries)
  }

  /** Answers the last request. */
  answerLast(): void {
    this.#pending.at(-1)!.answered({} as FrameReader, 0) // nothing of it is read
  }
}

const offsetsOf = async (deliveries: AsyncIterable<Delivery>): Promise<number[]> => {
  const offsets: number[] = []
  for await (const { offset } of deliveries) offsets.push(offset)
  return offsets
}

describe('a queue subscription', () => {
  it('gives out what is claimed, waits with each claim, and goes on after an empty one (Q1)', async () => {
    const queue = new Queue(2, 0, 3)
    assert.deepEqual(await offsetsOf(queue.subscribe()), [0, 1, 2, 3, 4])
    const body = { max_messages: 3, lease_timeout_millis: LEASE_MS, wait_millis: 30_000 }
    assert.deepEqual(
      queue.bodies,
      Array.from({ length: 4 }, () => body),
    )
    assert.deepEqual(queue.givenBack, [])
  })

  it('claims ahead, and no more than its prefetch (Q1)', async () => {
    const queue = new Queue(9, 9, 9, 9)
    const deliveries = queue.subscribe({ prefetch: 4, max_messages: 1000 })
    await deliveries.next()
    await nextTurn()
    assert.equal(queue.claimed, 4)
    await deliveries.next()
    await nextTurn()
    assert.equal(queue.claimed, 6) // half of the prefetched deliveries were taken
    await deliveries.return()
    assert.deepEqual(queue.givenBack, [2, 3, 4, 5])
  })

  it('gives back what was not given out when its loop is left (Q2)', async () => {
    const queue = new Queue(3)
    for await (const { offset } of queue.subscribe()) if (offset === 0) break
    assert.deepEqual(queue.givenBack, [1, 2])
  })

  it('gives back at once when it is told to stop, whatever its loop is doing (Q2)', async () => {
    const queue = new Queue(3)
    const deliveries = queue.subscribe()
    await deliveries.next()
    queue.stop.abort()
    assert.deepEqual(queue.givenBack, [1, 2])
    assert.equal((await deliveries.next()).done, true)
  })

  it('gives back everything of a claim that was answered too late (Q2)', async () => {
    const queue = new Queue(2)
    const first = queue.subscribe().next()
    queue.stop.abort()
    assert.deepEqual(await first, { done: true, value: undefined })
    assert.deepEqual(queue.givenBack, [0, 1])
  })

  it('throws what a claim was refused with, after everything that it had claimed', async () => {
    const queue = new Queue(4)
    const deliveries = queue.subscribe({ prefetch: 4, max_messages: 1000 })
    await deliveries.next()
    queue.client.claimQueue = () => Promise.reject(new SdkError('HttpBroker', 'missing_stream', 'gone'))
    for (const offset of [1, 2, 3]) assert.equal((await deliveries.next()).value?.offset, offset)
    await assert.rejects(deliveries.next(), { code: 'missing_stream' })
    assert.equal((await deliveries.next()).done, true)
  })
})

describe('the leases of a subscription', () => {
  it('are renewed to their full length when half is over, given out or not, until they are settled (Q3, H1)', async () => {
    const queue = new Queue(3)
    const deliveries = queue.subscribe()
    const { value: first } = await deliveries.next()
    await queue.pass(LEASE_MS / 2 - 1)
    assert.deepEqual(queue.renewed, [])
    await queue.pass(1)
    const once = [0, 1, 2].map((offset) => [offset, LEASE_MS / 2])
    assert.deepEqual(queue.renewed, once)
    await queue.client.ack(first!)
    await queue.pass(LEASE_MS / 2)
    assert.deepEqual(queue.renewed, [...once, [1, LEASE_MS / 2], [2, LEASE_MS / 2]])
    await deliveries.return()
    assert.equal(queue.timers, 0)
  })

  it('of a loop that is not taken on are renewed until the client is closed (Q3)', async () => {
    const queue = new Queue(1)
    await queue.subscribe().next()
    queue.stop.abort()
    await queue.pass(LEASE_MS)
    assert.equal(queue.renewed.length, 2)
    queue.closing.abort()
    assert.equal(queue.timers, 0)
  })

  it('are not renewed for longer than asked, and lost then (Q3)', async () => {
    const queue = new Queue(1)
    const deliveries = queue.subscribe({ renew_for_millis: LEASE_MS })
    await deliveries.next()
    await queue.pass(2 * LEASE_MS)
    assert.deepEqual(queue.renewed, [[0, LEASE_MS / 2]])
    assert.deepEqual(queue.lost, [[0, 'lease_expired']])
    assert.equal(queue.timers, 0)
  })

  it('are lost, once, when the broker says so; what was kept is not given out then (H2)', async () => {
    const queue = new Queue(3)
    queue.refusals.set(0, 'lease_expired').set(1, 'delivery_not_found')
    const deliveries = queue.subscribe()
    await deliveries.next()
    await queue.pass(LEASE_MS)
    assert.deepEqual(queue.lost, [[0, 'lease_expired']])
    assert.equal((await deliveries.next()).value?.offset, 2)
  })

  it('outlive a broker that cannot be reached, but not their time (H2)', async () => {
    const queue = new Queue(1)
    queue.refusals.set(0, 'connection_failed')
    const deliveries = queue.subscribe()
    await deliveries.next()
    await queue.pass(LEASE_MS - 1)
    assert.deepEqual(queue.lost, [])
    queue.refusals.clear()
    await queue.pass(1)
    assert.deepEqual([queue.renewed.length, queue.lost], [0, [[0, 'lease_expired']]])
  })

  it('that are being settled are neither renewed nor lost (H3)', async () => {
    const queue = new Queue(1)
    const { value: delivery } = await queue.subscribe().next()
    const refused = Promise.withResolvers<void>()
    const settling = queue.leases.settling([delivery!], () => refused.promise)
    await queue.pass(2 * LEASE_MS)
    assert.deepEqual([queue.renewed, queue.lost], [[], []])
    refused.reject(new SdkError('HttpBroker', 'lease_expired', 'too late'))
    await assert.rejects(settling)
    await queue.pass(2 * LEASE_MS)
    assert.deepEqual([queue.lost, queue.timers], [[], 0])
  })
})

describe('a subscription to which deliveries are pushed', () => {
  it('holds the leases of deliveries that no claim took yet: they are renewed, and not given out when they are lost (Q3)', async () => {
    const queue = new PushingQueue()
    queue.refusals.set(3, 'lease_expired')
    const deliveries = queue.subscribe({ prefetch: 4, max_messages: 1000 })
    const first = deliveries.next()
    await nextTurn()
    queue.push(3)
    await first
    await nextTurn()
    queue.push(1)
    await nextTurn()
    queue.push(2) // no claim waits
    await queue.pass(LEASE_MS / 2)
    assert.deepEqual(
      queue.renewed.map(([offset]) => offset),
      [0, 1, 2, 4, 5],
    )
    const given: (number | undefined)[] = []
    while (given.length < 4) given.push((await deliveries.next()).value?.offset)
    assert.deepEqual(given, [1, 2, 4, 5])
    assert.deepEqual(queue.lost, [])
    await deliveries.return()
  })

  it('gives back what comes after it has ended, until the broker has ended it, too (Q2)', async () => {
    const queue = new PushingQueue()
    const deliveries = queue.subscribe({ prefetch: 4 })
    const first = deliveries.next()
    await nextTurn()
    queue.push(2)
    await first
    queue.stop.abort()
    assert.deepEqual(queue.requests.at(-1), { op: 'unsubscribe', subscription: 1 })
    queue.push(1)
    assert.deepEqual(queue.givenBack, [1, 2])
    queue.answerLast()
    assert.equal(queue.target, null)
    assert.equal((await deliveries.next()).done, true)
  })
})

describe('handlers of a queue subscription', () => {
  it('acknowledge by returning and give back by throwing (Q4)', async () => {
    const queue = new Queue(3)
    const errors: unknown[] = []
    await queue.subscribe({ onHandlerError: (_, error) => errors.push(error) }).handle(({ offset }) => {
      if (offset === 1) throw 'bad'
    })
    assert.deepEqual([queue.acked, queue.nacked, errors], [[0, 2], [1], ['bad']])
  })

  it('are waited for when the subscription is told to stop, and their leases renewed meanwhile (Q4)', async () => {
    const queue = new Queue(2)
    const gate = Promise.withResolvers<void>()
    const handling = queue.subscribe().handle(() => gate.promise)
    await nextTurn()
    queue.stop.abort()
    await nextTurn()
    assert.deepEqual(queue.givenBack, [1])
    await queue.pass(3 * LEASE_MS)
    assert.deepEqual([queue.renewed.map(([offset]) => offset), queue.lost], [Array(6).fill(0), []])
    gate.resolve()
    await handling
    assert.deepEqual([queue.acked, queue.timers], [[0], 0])
  })

  it('acknowledge again when an answer was lost, and take the refusal of the second as a success (Q4)', async () => {
    const queue = new Queue(1)
    queue.ackFailures.push(
      new SdkError('Transport', 'connection_lost', 'm'),
      new SdkError('HttpBroker', 'lease_not_active', 'm'),
    )
    await queue.subscribe().handle(() => {})
    assert.deepEqual([queue.ackFailures, queue.lost], [[], []])
  })

  it('acknowledge again when the subscription was told to stop, until the client is closed (Q4)', async () => {
    for (const [closes, settled] of [
      [false, [[0], []]],
      [true, [[], [[0, 'connection_lost']]]],
    ] as const) {
      const queue = new Queue(1)
      queue.ackFailures.push(new SdkError('Transport', 'connection_lost', 'm'))
      await queue.subscribe().handle(() => {
        queue.stop.abort()
        if (closes) queue.closing.abort()
      })
      assert.deepEqual([queue.acked, queue.lost], settled)
    }
  })

  it('say that the delivery is lost when its acknowledgement is refused (Q4)', async () => {
    const queue = new Queue(1)
    queue.ackFailures.push(new SdkError('HttpBroker', 'lease_expired', 'm'))
    await queue.subscribe().handle(() => {})
    assert.deepEqual(queue.lost, [[0, 'lease_expired']])
  })

  it('end all together when a claim is refused', async () => {
    const queue = new Queue(2)
    const claim = queue.client.claimQueue
    queue.client.claimQueue = async (...call) => {
      if (queue.claimed > 0) throw new SdkError('HttpBroker', 'missing_stream', 'gone')
      return claim(...call)
    }
    await assert.rejects(
      queue.subscribe({ concurrency: 4 }).handle(() => {}),
      { code: 'missing_stream' },
    )
    assert.deepEqual(queue.acked, [0, 1])
  })
})
