import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Follower } from '../../../src/logstore/ingest/follower.ts'
import { nextTurn } from '../../support/next-turn.ts'

/** Lanes that the test plays, and how handing over ended for each frame. */
class Rig {
  readonly given: number[] = []
  readonly lane = { follow: ({ number }: { number: number }) => void this.given.push(number) }
  isAtWork = true
  readonly ended: string[] = []
  readonly follower = new Follower(() => (this.isAtWork ? this.lane : null))

  follow(name: string): void {
    this.follower.follow(Buffer.from(name)).then(
      () => this.ended.push(`${name} taken`),
      (error: Error) => this.ended.push(`${name}: ${error.message}`),
    )
  }
}

describe('frames on their way to the decode lane', () => {
  it('are done when the lane says so', async () => {
    const rig = new Rig()
    for (const name of ['a', 'b', 'c']) rig.follow(name)
    rig.follower.followed(2)
    await nextTurn()
    assert.deepEqual(rig.ended, ['a taken', 'b taken'])
    rig.follower.followed(3)
    await nextTurn()
    assert.deepEqual(rig.ended, ['a taken', 'b taken', 'c taken'])
  })

  it('go to the next lane when one died, in their order', async () => {
    const rig = new Rig()
    rig.follow('a')
    rig.follow('b')
    rig.follower.followed(1)
    rig.isAtWork = false
    rig.follow('c')
    assert.deepEqual(rig.given, [1, 2])
    rig.follower.laneStarted(rig.lane)
    assert.deepEqual(rig.given, [1, 2, 2, 3])
    rig.follower.followed(3)
    await nextTurn()
    assert.deepEqual(rig.ended, ['a taken', 'b taken', 'c taken'])
  })

  it('fail when the log does not go on with them', async () => {
    const rig = new Rig()
    rig.follow('a')
    rig.follow('b')
    rig.follower.failed('they differ')
    await nextTurn()
    assert.deepEqual(rig.ended, ['a: they differ', 'b: they differ'])
    rig.follower.laneStarted(rig.lane)
    assert.deepEqual(rig.given, [1, 2])
  })

  it('are let go when nobody wants them any more', async () => {
    const rig = new Rig()
    rig.follow('a')
    rig.follower.end()
    await nextTurn()
    assert.deepEqual(rig.ended, ['a taken'])
    rig.follower.laneStarted(rig.lane)
    assert.deepEqual(rig.given, [1])
  })
})
