import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Room } from '../../src/engine/room.ts'

const BYTES_MAX = 1000

/** Frames that enter a room and leave it in order. */
class Ring {
  readonly room = new Room(BYTES_MAX)
  readonly entered: number[] = []
  readonly #inside: number[] = []

  /** @param givesUp the frame is not appended when it may enter at last */
  come(number: number, bytes: number, givesUp = false): void {
    const entrant = { decide: (): void => void (!givesUp && enter()) }
    const enter = (): void => {
      assert.ok(this.room.admitOrQueue(entrant, bytes))
      this.room.taken(bytes)
      this.#inside.push(bytes)
      this.entered.push(number)
    }
    if (this.room.admitOrQueue(entrant, bytes)) enter()
  }

  get bytes(): number {
    return this.#inside.reduce((sum, bytes) => sum + bytes, 0)
  }

  get count(): number {
    return this.#inside.length
  }

  leave(): void {
    const bytes = this.#inside.shift()
    if (bytes === undefined) return
    this.room.release(bytes)
    this.room.admitWaiting()
  }
}

describe('room in the ring', () => {
  it('is for those who came first, and none of it is forgotten (R1, R2)', () => {
    const arrival = fc.record({ bytes: fc.integer({ min: 0, max: 2 * BYTES_MAX }), givesUp: fc.boolean() })
    fc.assert(
      fc.property(fc.array(fc.oneof(arrival, fc.constant(null)), { maxLength: 40 }), (events) => {
        const ring = new Ring()
        const mayEnter: number[] = []
        for (const [number, event] of events.entries()) {
          if (event === null) ring.leave()
          else {
            const before = ring.entered.length
            ring.come(number, event.bytes, event.givesUp)
            const entersAtOnce = ring.entered.length > before
            if (entersAtOnce || !event.givesUp) mayEnter.push(number)
          }
          assert.ok(ring.bytes <= BYTES_MAX || ring.count === 1)
        }
        while (ring.count > 0) ring.leave()
        assert.deepEqual(ring.entered, mayEnter)
      }),
    )
  })

  it('lets in one that is too long for it when it is alone', () => {
    const ring = new Ring()
    ring.come(0, 5 * BYTES_MAX)
    ring.come(1, 1)
    assert.deepEqual(ring.entered, [0])
    ring.leave()
    assert.deepEqual(ring.entered, [0, 1])
  })
})
