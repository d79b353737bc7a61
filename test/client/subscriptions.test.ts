import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import type { Delivery, FetchOptions, ReplayPage, StoredRecord } from '../../src/client/index.ts'
import { queueDeliveries, replayRecords } from '../../src/client/subscriptions.ts'
import type { SubscriptionParts } from '../../src/client/subscriptions.ts'

const STREAM = 'orders'
const recordAt = (offset: number): StoredRecord => ({
  offset,
  message_id: `m-${offset}`,
  payload: Buffer.of(),
  key: null,
  headers: {},
  event_time_ms: 0,
  ingest_time_ms: 0,
})

/** Asked for pages of a stream that grows while nobody looks: by so many records with each pause. */
class GrowingStream {
  readonly asked: FetchOptions[] = []
  readonly pausesMs: number[] = []
  readonly stop = new AbortController()
  end: number
  readonly #growth: number[]
  readonly #pageMax: number

  constructor({ end, growth, pageMax }: { end: number; growth: readonly number[]; pageMax: number }) {
    this.end = end
    this.#growth = [...growth]
    this.#pageMax = pageMax
  }

  async fetch(_stream: string, options: FetchOptions = {}): Promise<ReplayPage> {
    this.asked.push(options)
    const isByTime = typeof options.event_time_ms === 'number'
    const start = isByTime ? this.end : (options.start_offset ?? 0)
    const next = Math.max(start, Math.min(start + this.#pageMax, this.end))
    const records = Array.from({ length: next - start }, (_, i) => recordAt(start + i))
    return { stream: STREAM, records, next_offset: next, end_of_stream: next >= this.end } as unknown as ReplayPage // no more is looked at
  }

  get parts(): SubscriptionParts {
    return {
      stop: this.stop.signal,
      retrying: (attempt) => attempt(),
      pause: async (delayMs) => {
        this.pausesMs.push(delayMs)
        const growth = this.#growth.shift()
        if (growth === undefined) this.stop.abort()
        else this.end += growth
      },
    }
  }

  subscribe(options: FetchOptions = {}) {
    return replayRecords(this, STREAM, options, this.parts)
  }
}

test('a replay subscription gives each record from its start on once and in order, as the stream grows, until it is told to stop', async () => {
  const shapes = fc.record({
    end: fc.nat(20),
    growth: fc.array(fc.nat(7), { maxLength: 8 }),
    pageMax: fc.integer({ min: 1, max: 6 }),
  })
  await fc.assert(
    fc.asyncProperty(shapes, fc.nat(10), async (shape, start) => {
      const stream = new GrowingStream(shape)
      const offsets: number[] = []
      for await (const { offset } of stream.subscribe({ start_offset: start })) offsets.push(offset)
      const count = Math.max(0, stream.end - start)
      assert.deepEqual(
        offsets,
        Array.from({ length: count }, (_, i) => start + i),
      )
    }),
  )
})

describe('a replay subscription', () => {
  it('asks for a page when the one before it was taken, not sooner (U1)', async () => {
    const stream = new GrowingStream({ end: 6, growth: [], pageMax: 3 })
    const records = stream.subscribe()
    for (const pages of [1, 1, 1, 2]) {
      await records.next()
      assert.equal(stream.asked.length, pages)
    }
    await records.return()
    assert.equal(stream.asked.length, 2)
  })

  it('looks ever less often at a stream that has nothing new, and at once again when it has', async () => {
    const stream = new GrowingStream({ end: 0, growth: [0, 0, 0, 0, 0, 0, 0, 1, 0], pageMax: 3 })
    for await (const _ of stream.subscribe());
    assert.deepEqual(stream.pausesMs, [10, 20, 40, 80, 160, 320, 500, 500, 10, 20])
  })

  it('names its consumer once at the end of the stream, not with each look', async () => {
    const stream = new GrowingStream({ end: 1, growth: [0, 0, 1], pageMax: 3 })
    for await (const _ of stream.subscribe({ consumer_group: 'g', consumer_id: 'c' }));
    assert.deepEqual(
      stream.asked.map(({ consumer_id }) => consumer_id ?? null),
      ['c', 'c', null, null, null, 'c'],
    )
  })

  it('that begins at a time waits for the first record of it', async () => {
    const stream = new GrowingStream({ end: 5, growth: [0], pageMax: 3 })
    for await (const _ of stream.subscribe({ event_time_ms: 9, max_records: 2 }));
    assert.deepEqual(
      stream.asked.map(({ event_time_ms, start_offset, max_records }) => [event_time_ms, start_offset, max_records]),
      [
        [9, undefined, 2],
        [9, undefined, 2],
      ],
    )
  })

  it('throws what was tried again in vain, and ends quietly when it was told to stop meanwhile (U2)', async () => {
    for (const isStopped of [false, true]) {
      const stream = new GrowingStream({ end: 5, growth: [], pageMax: 3 })
      const retrying = async (): Promise<never> => {
        if (isStopped) stream.stop.abort()
        throw new Error('in vain')
      }
      const next = replayRecords(stream, STREAM, {}, { ...stream.parts, retrying }).next()
      if (isStopped) assert.deepEqual(await next, { done: true, value: undefined })
      else await assert.rejects(next, /in vain/)
    }
  })
})

/** Hands out claims of so many deliveries each, then says stop. */
class Claims {
  claimed = 0
  readonly givenBack: number[] = []
  readonly bodies: object[] = []
  readonly stop = new AbortController()
  readonly #sizes: number[]

  constructor(...sizes: readonly number[]) {
    this.#sizes = [...sizes]
  }

  async claimQueue(_stream: string, _group: string, body: object = {}) {
    this.bodies.push(body)
    const size = this.#sizes.shift()
    if (size === undefined) this.stop.abort()
    const deliveries = Array.from({ length: size ?? 0 }, () => ({ offset: this.claimed++ }) as Delivery) // no more is looked at
    return { deliveries } as unknown as Awaited<ReturnType<Parameters<typeof queueDeliveries>[0]['claimQueue']>>
  }

  async retryDelivery(delivery: object) {
    this.givenBack.push((delivery as Delivery).offset)
    return {} as Awaited<ReturnType<Parameters<typeof queueDeliveries>[0]['retryDelivery']>>
  }

  subscribe() {
    const parts: SubscriptionParts = { stop: this.stop.signal, pause: async () => {}, retrying: (attempt) => attempt() }
    return queueDeliveries(this, STREAM, 'workers', { max_messages: 3 }, parts)
  }
}

describe('a queue subscription', () => {
  it('gives out what is claimed, waits with each claim, and goes on after an empty one', async () => {
    const claims = new Claims(2, 0, 3)
    const offsets: number[] = []
    for await (const { offset } of claims.subscribe()) offsets.push(offset)
    assert.deepEqual(offsets, [0, 1, 2, 3, 4])
    assert.deepEqual(
      claims.bodies,
      Array.from({ length: 4 }, () => ({ max_messages: 3, wait_millis: 30_000 })),
    )
    assert.deepEqual(claims.givenBack, [])
  })

  it('gives back what was not given out when its loop is left (U3)', async () => {
    const claims = new Claims(3)
    for await (const { offset } of claims.subscribe()) if (offset === 0) break
    assert.deepEqual(claims.givenBack, [1, 2])
  })

  it('gives back what was not given out when it is told to stop (U3)', async () => {
    const claims = new Claims(3)
    for await (const _ of claims.subscribe()) claims.stop.abort()
    assert.deepEqual(claims.givenBack, [1, 2])
  })

  it('gives back everything of a claim that was answered too late (U3)', async () => {
    const claims = new Claims(2)
    const first = claims.subscribe().next()
    claims.stop.abort()
    assert.deepEqual(await first, { done: true, value: undefined })
    assert.deepEqual(claims.givenBack, [0, 1])
  })
})
