import assert from 'node:assert/strict'
import { after, describe, it, test } from 'node:test'
import * as fc from 'fast-check'
import { Piscina } from 'piscina'
import { SpscRing } from '../../src/pipeline/spsc-ring.ts'
import type { RingEndReport, RingEndTask } from '../support/ring-end.ts'
import { keepProcessAlive } from '../support/waiting.ts'

const ringEnd = new URL('../support/ring-end.ts', import.meta.url).pathname

/** A ring whose counters are at `start`, for example shortly before 2^32. */
function ringAt(capacityBytes: number, start: number): SpscRing {
  const fresh = SpscRing.create(capacityBytes)
  const words = new Int32Array(fresh.shared)
  words[0] = start | 0
  words[16] = start | 0
  return SpscRing.attach(fresh.shared)
}

function send(ring: SpscRing, text: string): boolean {
  const at = ring.tryReserve(Buffer.byteLength(text))
  if (at < 0) return false
  ring.bytes.write(text, at)
  ring.publish()
  return true
}

function receive(ring: SpscRing): string | null {
  const at = ring.next()
  return at < 0 ? null : ring.bytes.toString('utf8', at, at + ring.messageBytes)
}

describe('a ring', () => {
  it('delivers messages in order and says -1 when there is none', () => {
    const ring = SpscRing.create(64)
    assert.equal(receive(ring), null)
    assert.ok(send(ring, 'one'))
    assert.ok(send(ring, ''))
    assert.deepEqual([receive(ring), receive(ring), receive(ring)], ['one', '', null])
  })

  it('shows a message only once it was published', () => {
    const ring = SpscRing.create(64)
    const at = ring.tryReserve(5)
    ring.bytes.write('maybe', at)
    assert.equal(receive(ring), null)
    ring.publish()
    assert.equal(receive(ring), 'maybe')
  })

  it('forgets a reservation when another one is made before publishing', () => {
    const ring = SpscRing.create(64)
    ring.tryReserve(20)
    assert.ok(send(ring, 'second'))
    assert.deepEqual([receive(ring), receive(ring)], ['second', null])
  })

  it('refuses what does not fit now and accepts it after the release', () => {
    const ring = SpscRing.create(64)
    assert.ok(send(ring, 'a'.repeat(24)))
    assert.ok(send(ring, 'b'.repeat(24)))
    assert.equal(ring.usedBytes, 64)
    assert.ok(!send(ring, ''))
    receive(ring)
    assert.ok(!send(ring, ''), 'taken is not yet released')
    ring.release()
    assert.ok(send(ring, ''))
  })

  it('refuses a message above messageBytesMax as a bug of the caller', () => {
    const ring = SpscRing.create(64)
    assert.throws(() => ring.tryReserve(ring.messageBytesMax + 1), assert.AssertionError)
    assert.throws(() => ring.publish(), assert.AssertionError)
    assert.throws(() => SpscRing.create(100), assert.AssertionError)
  })

  it('never lets the main thread sleep', () => {
    const ring = SpscRing.create(64)
    assert.throws(() => ring.waitForMessage(), assert.AssertionError)
    assert.throws(() => ring.waitForSpace(8), assert.AssertionError)
  })

  it('gives what its dead consumer took but did not release to the next consumer', () => {
    const ring = SpscRing.create(64)
    send(ring, 'done')
    receive(ring)
    ring.release()
    send(ring, 'again')
    assert.equal(receive(ring), 'again')
    assert.equal(receive(SpscRing.attach(ring.shared)), 'again')
  })
})

test('an empty ring takes a message of messageBytesMax wherever its counters stand', () => {
  const places = fc.integer({ min: 0, max: 2 ** 29 - 1 }).map((n) => n * 8)
  fc.assert(
    fc.property(places, (start) => {
      const ring = ringAt(128, start)
      const text = 'x'.repeat(ring.messageBytesMax)
      assert.ok(send(ring, text))
      assert.equal(receive(ring), text)
    }),
  )
})

test('a ring behaves as a bounded queue under any interleaving, across its end and across 2^32', () => {
  const operations = fc.array(
    fc.oneof(
      fc.record({ kind: fc.constant('send' as const), bytes: fc.integer({ min: 0, max: 120 }) }),
      fc.record({ kind: fc.constant('reserve' as const), bytes: fc.integer({ min: 0, max: 120 }) }),
      fc.record({ kind: fc.constantFrom('next' as const, 'release' as const, 'reattach' as const) }),
    ),
    { maxLength: 120 },
  )
  const starts = fc.constantFrom(0, 2 ** 32 - 8, 2 ** 32 - 64, 2 ** 32 - 256, 2 ** 31 - 128)
  fc.assert(
    fc.property(operations, starts, (steps, start) => {
      const capacity = 256
      let producer = ringAt(capacity, start)
      let consumer = SpscRing.attach(producer.shared)
      const published: string[] = [] // messages that are not released yet
      let taken = 0
      let sent = 0

      for (const step of steps) {
        if (step.kind === 'send') {
          const text = String.fromCharCode(97 + (sent++ % 26)).repeat(step.bytes)
          const worstBytes = published.reduce((sum, each) => sum + 16 + each.length, 0) + 2 * (step.bytes + 16) + 120
          const accepted = send(producer, text)
          if (worstBytes <= capacity) assert.ok(accepted, 'refused though there was room')
          if (accepted) published.push(text)
        } else if (step.kind === 'reserve') {
          producer.tryReserve(step.bytes)
        } else if (step.kind === 'next') {
          assert.equal(receive(consumer), published[taken] ?? null)
          if (taken < published.length) taken++
        } else if (step.kind === 'release') {
          consumer.release()
          published.splice(0, taken)
          taken = 0
        } else {
          producer = SpscRing.attach(producer.shared)
          consumer = SpscRing.attach(producer.shared)
          taken = 0
        }
        assert.ok(producer.usedBytes <= capacity)
        assert.ok(published.length > 0 || producer.usedBytes === 0)
      }
    }),
    { numRuns: 400 },
  )
})

const MIB = 1024 * 1024

describe('a large ring', () => {
  const deliver = (ring: SpscRing, bytes: number): number => {
    const at = ring.tryReserve(bytes)
    ring.publish()
    assert.equal(ring.next(), at)
    ring.release()
    return at
  }

  it('uses its beginning alone while little is on its way', () => {
    const ring = SpscRing.create(64 * MIB)
    const ends = Array.from({ length: 1000 }, () => deliver(ring, 100_000) + 100_000)
    assert(Math.max(...ends) < 8 * MIB + 200_000, `it went up to ${Math.max(...ends)}`)
    assert(Math.min(...ends.slice(500)) < 200_000, 'it went back to the start')
  })

  it('goes on to its end while more is on its way, and refuses nothing for which there is room', () => {
    const ring = SpscRing.create(64 * MIB)
    let sent = 0
    for (; ring.tryReserve(MIB) >= 0; sent++) ring.publish()
    assert(sent >= 63, `${sent} messages of a MiB`)
  })

  it('loses, repeats and mixes up nothing, whatever is on its way', () => {
    const steps = fc.array(fc.integer({ min: -40, max: 900 }), { maxLength: 150 })
    fc.assert(
      fc.property(steps, (sizes) => {
        const ring = SpscRing.create(32 * MIB)
        const consumer = SpscRing.attach(ring.shared)
        const onTheWay: { readonly mark: number; readonly at: number; readonly end: number }[] = []
        let mark = 0
        for (const size of sizes) {
          if (size >= 0) {
            const bytes = 8 + size * 1024
            const at = ring.tryReserve(bytes)
            const used = onTheWay.reduce((sum, { at, end }) => sum + end - at + 16, 0)
            if (at < 0) assert(used + 2 * bytes > 7 * MIB, 'refused though there was room')
            else {
              for (const other of onTheWay) assert(at >= other.end || at + bytes <= other.at, 'lies over another one')
              ring.bytes.writeUInt32LE(++mark, at)
              ring.bytes.writeUInt32LE(mark, at + bytes - 4)
              ring.publish()
              onTheWay.push({ mark, at, end: at + bytes })
            }
          } else {
            for (let left = -size; left > 0 && onTheWay.length > 0; left--) {
              const at = consumer.next()
              const expected = onTheWay.shift()!
              assert.equal(at, expected.at)
              assert.equal(at + consumer.messageBytes, expected.end)
              assert.equal(consumer.bytes.readUInt32LE(at), expected.mark)
              assert.equal(consumer.bytes.readUInt32LE(expected.end - 4), expected.mark)
            }
            consumer.release()
          }
        }
      }),
      { numRuns: 100 },
    )
  })
})

describe('a consumer that spins', () => {
  const clock = (): { looks: number; nowMs: () => number } => {
    const made = { looks: 0, nowMs: () => (made.looks += 1) }
    return made
  }

  it('ends when its time is over, and not before', () => {
    const { looks, nowMs } = clock()
    assert.equal(looks, 0)
    assert.equal(ringAt(256, 0).spinForMessage(10, nowMs), false)
    assert.equal(nowMs(), 12) // began at 1, ended after 11
  })

  it('sees a message that is there, or comes meanwhile', () => {
    const ring = ringAt(256, 0)
    const producer = SpscRing.attach(ring.shared)
    let looks = 0
    const sent = ring.spinForMessage(1000, () => {
      if ((looks += 1) === 5) assert.ok(send(producer, 'late'))
      return looks
    })
    assert.deepEqual([sent, looks], [true, 5])
    assert.equal(
      ring.spinForMessage(1000, () => 0),
      true,
    )
    assert.equal(receive(ring), 'late')
    assert.equal(
      ring.spinForMessage(0, () => 0),
      false,
    )
  })
})

describe('a consumer that waits for some bytes', () => {
  const MESSAGE_BYTES = 8 + 8
  after(keepProcessAlive())
  const watched = (ring: SpscRing, bytes: number, ms: number) => {
    const seen = { isOver: false, over: Promise.resolve() }
    seen.over = ring.bytesCame(bytes, ms).then(() => void (seen.isOver = true))
    return seen
  }
  const turns = async (): Promise<void> => {
    for (let i = 0; i < 5; i += 1) await new Promise((resolve) => setImmediate(resolve))
  }

  it('sleeps on until they are there', async () => {
    const ring = ringAt(256, 0)
    const producer = SpscRing.attach(ring.shared)
    const seen = watched(ring, 3 * MESSAGE_BYTES, 60_000)
    for (let message = 0; message < 2; message += 1) assert.ok(send(producer, 'a'))
    await turns()
    assert.equal(seen.isOver, false)
    assert.ok(send(producer, 'a'))
    await seen.over
    assert.equal(ring.usedBytes, 3 * MESSAGE_BYTES)
  })

  it('does not sleep when they are there, and no longer than it is to', async () => {
    const ring = ringAt(256, 0)
    assert.ok(send(SpscRing.attach(ring.shared), 'a'))
    await ring.bytesCame(MESSAGE_BYTES, 60_000)
    await ring.bytesCame(2 * MESSAGE_BYTES, 1)
    assert.equal(ring.usedBytes, MESSAGE_BYTES)
  })

  it('is woken by whoever wakes it, and then by any message again', async () => {
    const ring = ringAt(256, 0)
    const producer = SpscRing.attach(ring.shared)
    const seen = watched(ring, 3 * MESSAGE_BYTES, 60_000)
    ring.wake()
    await seen.over
    const came = ring.messageCame(60_000)
    assert.ok(send(producer, 'a'))
    assert.equal(await came, true)
  })
})

describe('two threads on one ring', () => {
  for (const [capacityBytes, start] of [
    [64, 0],
    [256, 2 ** 32 - 4096],
    [4096, 2 ** 31 - 4096],
  ] as const) {
    it(`lose, repeat and tear nothing with ${capacityBytes} bytes from counter ${start}`, async () => {
      const pool = new Piscina<{ data: RingEndTask }, RingEndReport>({
        filename: ringEnd,
        maxThreads: 2,
        minThreads: 2,
      })
      const { shared: ring, messageBytesMax } = ringAt(capacityBytes, start)
      const task = { ring, messages: 30_000, messageBytesMax, seed: capacityBytes }
      const [produced, consumed] = await Promise.all([
        pool.run({ data: { ...task, end: 'produce' } }),
        pool.run({ data: { ...task, end: 'consume' } }),
      ])
      assert.deepEqual(consumed, produced)
      await pool.destroy()
    })
  }
})
