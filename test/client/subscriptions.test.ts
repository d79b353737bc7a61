import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import type { FetchOptions, ReplayPage, StoredRecord } from '../../src/client/index.ts'
import { replayRecords } from '../../src/client/subscriptions.ts'
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

interface Growth {
  readonly end: number
  readonly growth: readonly number[]
  readonly pageMax: number
  /** Whether the broker waits when `wait_millis` asks it to. */
  readonly waits?: boolean
}

/**
 * A stream that grows by the next number of records with each wait: a wait of the broker or, if the broker does not wait, of the
 * subscription.
 */
class GrowingStream {
  readonly asked: FetchOptions[] = []
  readonly pausesMs: number[] = []
  nowMs = 0
  readonly stop = new AbortController()
  end: number
  readonly #growth: number[]
  readonly #pageMax: number
  readonly #waits: boolean

  constructor({ end, growth, pageMax, waits = false }: Growth) {
    this.#waits = waits
    this.end = end
    this.#growth = [...growth]
    this.#pageMax = pageMax
  }

  async fetch(_stream: string, options: FetchOptions = {}): Promise<ReplayPage> {
    this.asked.push(options)
    const waitMs = options.wait_millis ?? 0
    if (this.#waits && waitMs > 0 && this.end <= (options.start_offset ?? 0)) this.#pass(waitMs)
    const isByTime = typeof options.event_time_ms === 'number'
    const start = isByTime ? this.end : (options.start_offset ?? 0)
    const next = Math.max(start, Math.min(start + this.#pageMax, this.end))
    const records = Array.from({ length: next - start }, (_, i) => recordAt(start + i))
    return { stream: STREAM, records, next_offset: next, end_of_stream: next >= this.end } as unknown as ReplayPage // the subscription reads nothing else
  }

  get parts(): SubscriptionParts {
    return {
      stop: this.stop.signal,
      closing: this.stop.signal,
      retrying: (attempt) => attempt(),
      timers: { nowMs: () => this.nowMs, wait: () => () => {} },
      pause: async (delayMs) => {
        this.pausesMs.push(delayMs)
        this.#pass(delayMs)
      },
    }
  }

  #pass(ms: number): void {
    this.nowMs += ms
    const growth = this.#growth.shift()
    if (growth === undefined) this.stop.abort()
    else this.end += growth
  }

  subscribe(options: FetchOptions = {}) {
    return replayRecords(this, STREAM, options, this.parts)
  }
}

test('a replay subscription gives each record from its start on once and in order, as the stream grows, until it is told to stop', async () => {
  const shapes = fc.record({
    end: fc.nat(20),
    growth: fc.array(fc.nat(7), { maxLength: 8 }),
    waits: fc.boolean(),
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

  it('waits with the broker at the end of the stream, and not besides (U3)', async () => {
    const stream = new GrowingStream({ end: 1, growth: [0, 2, 0], pageMax: 3, waits: true })
    for await (const _ of stream.subscribe({ wait_millis: 7000 }));
    assert.deepEqual(stream.pausesMs, [])
    assert.deepEqual(
      stream.asked.map(({ start_offset, wait_millis }) => [start_offset, wait_millis]),
      [undefined, 1, 1, 3, 3].map((start) => [start, 7000]),
    )
  })

  it('looks ever less often where the broker does not wait, and at once again when there is something new (U3)', async () => {
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
