import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Publisher } from '../../src/cluster/publisher.ts'
import type { PublisherAction, Settled } from '../../src/cluster/publisher.ts'
import { LaneMeasures } from '../../src/cluster/lane/measures.ts'
import { message as messageOf } from '../support/cluster-messages.ts'
import type { Message } from '../support/cluster-messages.ts'

const TIMES = { ackMs: 100, lookMs: 50, pauseMs: 10 }

const message = (ordinal: number, epoch = 2, writer = 'a/1'): Message => messageOf(epoch, writer, ordinal)

function begin(lastSequence = 10) {
  const acts: PublisherAction<string>[] = []
  const settled: Settled<string>[] = []
  let ids = 0
  const measured = LaneMeasures.create()
  const publisher = new Publisher<string>({
    lastSequence,
    times: TIMES,
    newId: () => (ids += 1),
    act: (action) => acts.push(action),
    measures: measured,
    settled: (each) => settled.push(each),
  })
  /** Actions since the last call: `ordinal>sequence` for a publish, `?sequence` for a look-up. */
  const done = (): string[] =>
    acts
      .splice(0)
      .map((act) => (act.kind === 'publish' ? `${act.message.ordinal}>${act.expectedLast + 1}` : `?${act.sequence}`))
  const confirmed = (): string[] => settled.splice(0).map(({ kind, sequence }) => `${kind} ${sequence}`)
  return { publisher, acts, done, confirmed, measured, lastId: () => ids }
}

test('several messages are on their way, each for a sequence of its own', () => {
  const { publisher, done, confirmed } = begin()
  for (const ordinal of [1, 2, 3]) publisher.publish(message(ordinal), 100, 0)
  assert.deepEqual(done(), ['1>11', '2>12', '3>13'])
  assert.equal(publisher.inFlightBytes, 300)
  publisher.acknowledged(2, 12, 1)
  assert.deepEqual(confirmed(), []) // it is not known yet which message is at 11
  publisher.acknowledged(1, 11, 1)
  assert.deepEqual(confirmed(), ['confirmed 11', 'confirmed 12'])
  assert.equal(publisher.inFlight, 1)
})

test('an acknowledgement that does not come is looked up', () => {
  const { publisher, done, confirmed } = begin()
  publisher.publish(message(1), 1, 0)
  publisher.publish(message(2), 1, 0)
  done()
  assert.equal(publisher.dueMs, 100)
  publisher.tick(99)
  assert.deepEqual(done(), [])
  publisher.tick(100)
  assert.deepEqual(done(), ['?11'])
  publisher.tick(150)
  assert.deepEqual(done(), ['?11']) // the answer to the look-up does not come either
  publisher.lookedUp(4, message(1), 151)
  assert.deepEqual(confirmed(), ['confirmed 11'])
  assert.deepEqual(done(), ['?12'])
  publisher.lookedUp(5, null, 152)
  assert.deepEqual(done(), ['2>12'])
})

test('a message that was found came into the stream after it was sent first', () => {
  const settled: Settled<string>[] = []
  let ids = 0
  const publisher = new Publisher<string>({
    lastSequence: 0,
    times: TIMES,
    newId: () => (ids += 1),
    act() {},
    measures: null,
    settled: (each) => settled.push(each),
  })
  publisher.publish(message(1), 1, 5)
  publisher.tick(105)
  publisher.lookedUp(2, null, 106) // not found: sent again
  publisher.tick(300)
  publisher.lookedUp(4, message(1), 301)
  assert.deepEqual(settled, [{ kind: 'confirmed', sequence: 1, message: message(1), sentMs: 5 }])
})

test('what is not there is published again for the same sequence, with what follows', () => {
  const { publisher, done, lastId } = begin()
  for (const ordinal of [1, 2]) publisher.publish(message(ordinal), 1, 0)
  done()
  publisher.refused(2, 1) // the first one was lost on its way
  assert.deepEqual(done(), ['?11'])
  publisher.publish(message(3), 1, 2) // sent later
  assert.deepEqual(done(), [])
  publisher.lookedUp(lastId(), null, 3)
  assert.deepEqual(done(), ['1>11', '2>12', '3>13'])
  publisher.refused(2, 4) // of an attempt that is over
  assert.deepEqual(done(), [])
  publisher.refused(lastId(), 5)
  assert.deepEqual(done(), []) // a pause, so that servers that lag are not asked all the time
  publisher.tick(13)
  assert.deepEqual(done(), ['?11'])
})

test('what became of each message is measured from when it was published first', () => {
  const { publisher, measured, lastId } = begin()
  publisher.publish(message(1), 1, 1000)
  publisher.publish(message(2), 1, 1000)
  publisher.acknowledged(1, 11, 1004)
  assert.deepEqual([measured.publishSeconds.sum, measured.confirmedAtMs], [0.004, 1004])
  publisher.tick(1100)
  assert.deepEqual([measured.lostAcknowledgements, measured.lookUps], [1, 1])
  publisher.tick(1150) // the answer to the look-up does not come either
  assert.deepEqual([measured.lostAcknowledgements, measured.lookUps], [1, 2])
  publisher.lookedUp(lastId(), null, 1151)
  publisher.refused(lastId(), 1170)
  assert.deepEqual([measured.refusedPublishes, measured.lookUps], [1, 3])
  publisher.lookedUp(lastId(), message(2), 1250)
  assert.deepEqual([measured.publishSeconds.sum, measured.confirmedAtMs], [0.254, 1250])
})

test('behind a message that does not count, all move up', () => {
  const { publisher, done, confirmed, lastId } = begin()
  for (const ordinal of [1, 2]) publisher.publish(message(ordinal), 1, 0)
  done()
  publisher.acknowledged(2, 12, 1) // stored behind a message of another leader, as the look-up shows
  publisher.refused(1, 1)
  publisher.lookedUp(lastId(), message(7, 1, 'b/1'), 2)
  assert.deepEqual(confirmed(), ['foreign 11'])
  assert.deepEqual(done(), ['?11', '?12'])
  publisher.lookedUp(lastId(), message(2), 3) // its own message, but out of order: readers ignore it
  assert.deepEqual(confirmed(), ['foreign 12'])
  assert.deepEqual(done(), ['?13'])
  publisher.lookedUp(lastId(), null, 4)
  assert.deepEqual(done(), ['1>13', '2>14'])
  publisher.acknowledged(2, 12, 5) // of the earlier attempt
  assert.deepEqual(confirmed(), [])
})

test('nothing goes out after it is closed', () => {
  const acts: PublisherAction<string>[] = []
  let ids = 0
  const publisher = new Publisher<string>({
    lastSequence: 0,
    times: TIMES,
    newId: () => (ids += 1),
    act: (action) => acts.push(action),
    measures: null,
    settled: () => publisher.close(), // a newer leader has fenced it
  })
  publisher.publish(message(1), 1, 0)
  publisher.refused(1, 1)
  acts.length = 0
  publisher.lookedUp(2, message(0, 3, 'b/1'), 2)
  publisher.tick(1000)
  assert.deepEqual(acts, [])
  assert.equal(publisher.dueMs, Infinity)
})
