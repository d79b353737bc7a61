import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { RecordBatch } from '../../../src/logstore/batch-frame.ts'
import { FrameGrams } from '../../../src/logstore/query/frame-grams.ts'
import { testSeed } from '../../support/seed.ts'
import { TestStore, textsOf, withStore } from '../../support/stored-segments.ts'

const batchOf = (text: string, mayHaveEscapes = false): RecordBatch =>
  ({ body: Buffer.from(text), mayHaveEscapes }) as Partial<RecordBatch> as RecordBatch

describe('what is remembered of frames', () => {
  it('never passes over a frame that has one of the texts', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'B', '1', '_', ' ', '-', 'é'), maxLength: 40 })
    fc.assert(
      fc.property(text, fc.nat(40), fc.nat(12), text, (body, from, length, other) => {
        const wanted = body.slice(from, from + length).toLowerCase()
        // eslint-disable-next-line no-control-regex
        if (!/^[\u0000-\u007f]+$/.test(wanted)) return
        const grams = new FrameGrams(1 << 20)
        grams.search(['wxyz'], 0).note(64, batchOf(body))
        assert(grams.search([wanted], 0).mayMatch(64))
        assert(grams.search(['wxyz', wanted], 0).mayMatch(64))
        if (/[a-z0-9_]{4}/i.test(other)) assert(grams.search(null, 0).mayMatch(64))
      }),
      { numRuns: 300, seed: testSeed() },
    )
  })

  it('passes over frames without them, those that it knows', () => {
    const grams = new FrameGrams(64)
    grams.search(['wxyz'], 0).note(64, batchOf('order 17 was paid'))
    const passes = (texts: readonly string[] | null, base = 0, offset = 64) =>
      grams.search(texts, base).mayMatch(offset)
    assert(!passes(['refused']))
    assert(!passes(['refused', 'never']))
    assert(passes(['refused', 'order']))
    assert(passes(['was']), 'too short to say anything')
    assert(passes(null))
    assert(passes(['refused'], 0, 128), 'another frame')
    assert(passes(['refused'], 9000), 'another segment')
    grams.search(['wxyz'], 9000).note(64, batchOf('order 17', true))
    assert(passes(['refused'], 9000), 'its texts may stand in other bytes')
    grams.search(['wxyz'], 9000).note(128, batchOf('order 17'))
    grams.search(['wxyz'], 9000).note(192, batchOf('order 17'))
    assert(!passes(['refused'], 9000, 128))
    assert(passes(['refused'], 9000, 192), 'there is no room')
    grams.keepOnly((base) => base === 9000)
    assert(passes(['refused']))
    grams.search(['wxyz'], 9000).note(192, batchOf('order 17'))
    assert(!passes(['refused'], 9000, 192), 'there is room again')
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

  it('finds in each dataset and time range what stands there, whichever form the segments have', () => {
    const words = ['order', 'refused', 'payment', 'timeout']
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ word: fc.nat(3), time: fc.nat(20), other: fc.boolean() }) },
      { weight: 1, arbitrary: fc.constant('seal') },
      { weight: 1, arbitrary: fc.constantFrom('index', 'compact') },
    )
    fc.assert(
      fc.property(
        fc.array(fc.array(step, { maxLength: 12 }), { minLength: 1, maxLength: 4 }),
        fc.nat(20),
        fc.nat(20),
        (rounds, from, length) =>
          withStore((store) => {
            const stored: { dataset: string; time: number; text: string }[] = []
            for (const steps of rounds) {
              for (const step of steps) {
                if (step === 'seal') store.seal()
                else if (typeof step === 'string') store.publish(false, step === 'compact')
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
