import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { RecordBatch } from '../../../src/logstore/batch-frame.ts'
import { FrameGrams, FrameNoter, createFrameGrams } from '../../../src/logstore/query/frame-grams.ts'
import { testSeed } from '../../support/seed.ts'
import { TestStore, textsOf, withStore } from '../../support/stored-segments.ts'

const batchOf = (text: string, mayHaveEscapes = false): RecordBatch =>
  ({ body: Buffer.from(text), mayHaveEscapes }) as Partial<RecordBatch> as RecordBatch

/** Notes of frames, and searches that use them. */
function notes(bytes: number) {
  const handle = createFrameGrams(bytes)
  const noter = new FrameNoter(handle)
  const grams = new FrameGrams(handle, null)
  return {
    noter,
    note: (position: number, batch: RecordBatch) => noter.note(position, batch, false),
    mayMatch: (texts: readonly string[] | null, position: number, generation = 0) =>
      grams.search(texts, position - 64, generation).mayMatch(64),
  }
}

/** Bytes of the smallest note. */
const NOTE_BYTES = 32

describe('what is remembered of frames', () => {
  it('never passes over a frame that has one of the texts', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'B', '1', '_', ' ', '-', 'é'), maxLength: 40 })
    fc.assert(
      fc.property(text, fc.nat(40), fc.nat(12), text, (body, from, length, other) => {
        const wanted = body.slice(from, from + length).toLowerCase()
        // eslint-disable-next-line no-control-regex
        if (!/^[\u0000-\u007f]+$/.test(wanted)) return
        const { note, mayMatch } = notes(1 << 12)
        note(64, batchOf(body))
        assert(mayMatch([wanted], 64))
        assert(mayMatch(['wxyz', wanted], 64))
        if (/[a-z0-9_]{4}/i.test(other)) assert(mayMatch(null, 64))
      }),
      { numRuns: 300, seed: testSeed() },
    )
  })

  it('passes over frames without them, those that it knows', () => {
    const { note, mayMatch } = notes(1 << 12)
    note(64, batchOf('order 17 was paid'))
    assert(!mayMatch(['refused'], 64))
    assert(!mayMatch(['refused', 'never'], 64))
    assert(mayMatch(['refused', 'order'], 64))
    assert(mayMatch(['was'], 64), 'too short to say anything')
    assert(mayMatch(null, 64))
    assert(mayMatch(['refused'], 128), 'another frame')
    note(128, batchOf('order 17', true))
    assert(mayMatch(['refused'], 128), 'its texts may stand in other bytes')
  })

  it('forgets the oldest when there is no room, and says nothing wrong of any', () => {
    const length = fc.oneof({ weight: 8, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.nat(2000) })
    const frame = fc.record({ length, hasEscapes: fc.boolean() })
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 60, size: 'max' }), fc.integer({ min: 8, max: 30 }), (frames, room) => {
        const { note, mayMatch } = notes(room * NOTE_BYTES)
        const words = frames.map((_, i) => `word${i}`)
        for (const [i, { length, hasEscapes }] of frames.entries()) {
          note(100 * i, batchOf(words[i]!.padEnd(length, ' '), hasEscapes))
          assert.equal(mayMatch(['other'], 100 * i), hasEscapes, 'the newest is there')
          let isKnown = true
          for (let before = i; before >= 0; before--) {
            assert(mayMatch([words[before]!], 100 * before))
            if (frames[before]!.hasEscapes) continue
            const its = !mayMatch(['other'], 100 * before)
            assert(isKnown || !its, 'the oldest go first')
            isKnown = its
          }
        }
      }),
      { numRuns: 100, seed: testSeed() },
    )
  })

  it('holds for one generation of the log, and a thread that takes over goes on where the last one ended', () => {
    const handle = createFrameGrams(1 << 12)
    const grams = new FrameGrams(handle, null)
    const mayMatch = (generation: number) => grams.search(['refused'], 0, generation).mayMatch(64)
    const first = new FrameNoter(handle)
    assert.equal(first.begin(3), 0)
    first.note(64, batchOf('order'), false)
    assert.deepEqual([mayMatch(3), mayMatch(4)], [false, true])
    const second = new FrameNoter(handle)
    assert.equal(second.begin(3), 65)
    second.note(900, null, true)
    assert.equal(second.begin(3), 901)
    assert(grams.search(['refused'], 0, 3).mayMatch(900), 'it cannot be read')
    const isOfOldSnapshot = grams.search(['refused'], 0, 3)
    assert.equal(second.begin(4), 0)
    assert(isOfOldSnapshot.mayMatch(64), 'what is forgotten during a search says nothing')
    assert.deepEqual([mayMatch(3), mayMatch(4)], [true, true])
  })

  it('leads over frames that follow each other, up to one that may have the text or is not known', () => {
    const handle = createFrameGrams(1 << 12)
    const noter = new FrameNoter(handle)
    for (const [position, text, follows] of [
      [64, 'order', false],
      [128, 'paid', true],
      [192, 'order refused', true],
      [256, 'paid', true],
      [320, 'paid', true],
      [704, 'paid', false],
      [768, 'paid', true],
    ] as const)
      noter.note(position, batchOf(text), follows)
    const grams = new FrameGrams(handle, null)
    const nextCandidate = (text: string, from: number, end?: number, generation = 0) =>
      grams.search([text], 0, generation, end).nextCandidateFrom(from)
    assert.equal(nextCandidate('refused', 64), 192)
    assert.equal(nextCandidate('refused', 192), 192)
    assert.equal(nextCandidate('refused', 200), 200, 'not known')
    assert.equal(nextCandidate('refused', 256), 321, 'what is behind it is not known')
    assert.equal(nextCandidate('refused', 704), 769)
    assert(nextCandidate('other', 64, 130) >= 130, 'no further than to the end of the segment')
    assert.equal(nextCandidate('refused', 64, Infinity, 1), 64, 'of another generation')
    const search = grams.search(['refused'], 0, 0)
    for (let i = 0; i < 40; i++) noter.note(1000 + i, batchOf('x'.repeat(4000)), true)
    assert.equal(search.nextCandidateFrom(64), 64, 'it was overwritten meanwhile')
  })

  it('changes no answer while records arrive, segments are sealed and bundles come', (context) => {
    const store = TestStore.open(context)
    const ask = (search: string) => {
      const question = { dataset: 'orders', filter: { search }, page: { limit: 500 } }
      const again = textsOf(store.query('acme', question))
      assert.deepEqual(textsOf(store.query('acme', question)), again)
      store.restart()
      assert.deepEqual(textsOf(store.query('acme', question)), again)
      return again
    }
    const paid: string[] = []
    for (let i = 0; i < 24; i++) {
      const text = i % 5 === 0 ? `order${i} was PAID` : `order${i} was refused`
      if (i % 5 === 0) paid.push(text)
      store.add('acme', [{ dataset: 'orders', time: BigInt(1000 + i), trace: null, text }])
      assert.deepEqual(ask('paid'), paid)
      assert.equal(ask('order3').length, i >= 3 ? 1 : 0)
      if (i % 7 === 6) store.seal()
      if (i % 7 === 2) store.publish(false, i > 12)
    }
  })

  it('leads from one segment to the next, unless frames between them were not noted', (context) => {
    const store = TestStore.open(context)
    store.notes = createFrameGrams(1 << 12)
    store.restart()
    let time = 0n
    const add = (text: string) => store.add('acme', [{ dataset: 'orders', time: time++, trace: null, text }])
    const nextCandidate = (from: number) =>
      new FrameGrams(store.notes!, null).search(['refused'], 0, 1).nextCandidateFrom(from)
    const first = add('order')
    store.note()
    add('order')
    store.seal()
    store.publish()
    const ofSecond = add('order')
    store.note()
    assert.equal(nextCandidate(first), ofSecond + 1)
    const last = add('refused')
    store.seal()
    store.publish(false, true)
    const ofThird = add('order')
    store.note()
    assert.equal(nextCandidate(first), ofSecond + 1, 'an older snapshot has the rest of the segment')
    assert.deepEqual([nextCandidate(last), nextCandidate(ofThird)], [last, ofThird + 1])
  })

  it('finds in each dataset and time range what stands there, whichever form the segments have', () => {
    const words = ['order', 'refused', 'payment', 'timeout']
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ word: fc.nat(3), time: fc.nat(20), other: fc.boolean() }) },
      { weight: 1, arbitrary: fc.constant('seal') },
      { weight: 1, arbitrary: fc.constantFrom('index', 'compact') },
      { weight: 2, arbitrary: fc.constant('note') },
    )
    fc.assert(
      fc.property(
        fc.array(fc.array(step, { maxLength: 12 }), { minLength: 1, maxLength: 4 }),
        fc.nat(20),
        fc.nat(20),
        fc.boolean(),
        (rounds, from, length, isNotedAhead) =>
          withStore((store) => {
            if (isNotedAhead) {
              store.notes = createFrameGrams(1 << 12)
              store.restart()
            }
            const stored: { dataset: string; time: number; text: string }[] = []
            for (const steps of rounds) {
              for (const step of steps) {
                if (step === 'seal') store.seal()
                else if (step === 'note') {
                  if (isNotedAhead) store.note()
                } else if (typeof step === 'string') store.publish(false, step === 'compact')
                else {
                  const records = [step.other, !step.other].map((isOther, i) => ({
                    dataset: isOther ? 'payments' : 'orders',
                    time: step.time + i,
                    text: `${stored.length + i} ${words[(step.word + i) % 4]!}`,
                  }))
                  stored.push(...records)
                  store.add(
                    'acme',
                    records.map((each) => ({ ...each, time: BigInt(each.time), trace: null })),
                  )
                }
              }
              for (const dataset of ['orders', 'payments'])
                for (const search of [...words, '-order']) {
                  const filter = { search, start_time_unix_nano: `${from}`, end_time_unix_nano: `${from + length}` }
                  const found = textsOf(store.query('acme', { dataset, filter, page: { limit: 500 } }))
                  const isFound = (text: string) =>
                    search === '-order' ? !text.endsWith('order') : text.endsWith(search)
                  const expected = stored.filter(
                    ({ dataset: its, time, text }) =>
                      its === dataset && time >= from && time < from + length && isFound(text),
                  )
                  assert.deepEqual(found.toSorted(), expected.map(({ text }) => text).toSorted())
                }
            }
          }),
      ),
      { numRuns: 30, seed: testSeed() },
    )
  })
})
