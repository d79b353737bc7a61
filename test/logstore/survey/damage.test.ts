/** How surveys treat damage: they refuse with the place, as specified, or count what is left and how many records are lost. They never count wrong. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { readWhole } from '../../../src/log/files.ts'
import type { QueryAnswer } from '../../../src/logstore/query/task.ts'
import { TestStore } from '../../support/stored-segments.ts'
import { questionOf, survey } from './support.ts'
import type { Asked, DatasetsAnswer, HistogramAnswer } from './support.ts'

const DATASET = { dataset: 'orders' }
/** Surveys that read records. */
const READING: readonly Asked[] = [
  { histogram: { ...DATASET, split_by: 'severity' } },
  { histogram: { ...DATASET, filter: { search: 'b' } } },
  { histogram: { ...DATASET, filter: { search: '-nothing' }, split_by: 'host' } },
  { fields: DATASET },
  { fields: { ...DATASET, filter: { search: 'a' } } },
]
/** Surveys that read indexes only. */
const INDEXED: readonly Asked[] = [{ datasets: '', allowed: null }, { histogram: { ...DATASET, interval_nano: 1 } }]

function filled(store: TestStore): number[] {
  return ['a', 'b', 'c'].map((text, i) =>
    store.add('acme', [
      { dataset: 'orders', time: BigInt(i + 1), trace: null, text, severity: 9, attributes: { host: text } },
      { dataset: 'payments', time: BigInt(i + 1), trace: null, text: `${text}'` },
    ]),
  )
}

function damage(store: TestStore, name: string, at: number): void {
  const file = nodeFiles.open(`${store.directoryOf(0)}/${name}`, 'write')
  const byte = Buffer.alloc(1)
  file.read(byte, at)
  file.writev([Buffer.from([byte[0]! ^ 1])], at)
  file.close()
}

const ask = (store: TestStore, asked: Asked): QueryAnswer => store.askSurvey('acme', questionOf(asked))
const answerOf = (store: TestStore, asked: Asked): unknown => survey(store, 'acme', asked)

describe('damage that a survey comes upon', () => {
  for (const sealed of [false, true]) {
    it(`in a frame of a${sealed ? ' bundle' : 'n unsealed segment'} is a refusal that names it, and once it is quarantined the rest is counted`, (context) => {
      const store = TestStore.open(context)
      const [, second] = filled(store)
      if (sealed) {
        store.seal()
        store.publish()
      }
      const whole = INDEXED.map((asked) => answerOf(store, asked))
      damage(store, 'records.log', second! + 200)
      for (const asked of READING) {
        const answer = ask(store, asked)
        assert.equal(answer.kind, 'bundle_read_failed')
        assert.deepEqual('incident' in answer && answer.incident, { kind: 'frame', base: 0, position: second })
      }
      assert.deepEqual(
        INDEXED.map((asked) => answerOf(store, asked)),
        whole, // counts what was acknowledged, as the damage is not known yet
      )

      store.quarantined = [{ from: second!, to: second! + 8 }]
      for (const asked of READING) {
        const answer = survey(store, 'acme', asked) as HistogramAnswer // what both have is looked at
        const { filter } = Object.values(asked)[0] as { filter?: { search: string } } // as they stand above
        const expected = filter === undefined || filter.search === '-nothing' ? 2 : filter.search === 'a' ? 1 : 0
        assert.deepEqual([answer.matched_records, answer.quarantined_records], [expected, 1])
      }
      const histogram = survey(store, 'acme', INDEXED[1]!) as HistogramAnswer // as its route documents it
      assert.deepEqual(
        [histogram.buckets.map(({ records }) => records), histogram.matched_records, histogram.quarantined_records],
        [[1, 0, 1], 2, 1],
      )
      const { datasets, quarantined_ranges } = survey(store, 'acme', INDEXED[0]!) as DatasetsAnswer // likewise
      assert.deepEqual(
        datasets.map(({ dataset, records, quarantined_records }) => [dataset, records, quarantined_records]),
        [
          ['orders', 2, 1],
          ['payments', 2, 1],
        ],
      )
      assert.equal(quarantined_ranges, 1)
    })
  }

  it('is not counted with the rest of its zone', (context) => {
    const store = TestStore.open(context)
    const positions = Array.from({ length: 6 }, (_, batch) =>
      store.add(
        'acme',
        Array.from({ length: 4 }, (_, i) => {
          const number = 4 * batch + i
          return { dataset: 'orders', time: BigInt(1 + number), trace: null, text: `${number}` }
        }),
      ),
    )
    store.quarantined = [{ from: positions[2]!, to: positions[4]! }]
    const asked = { histogram: { ...DATASET, buckets: 1 } }
    const { buckets, matched_records, quarantined_records } = survey(store, 'acme', asked) as HistogramAnswer // as its route documents it
    assert.deepEqual([buckets[0]!.records, matched_records, quarantined_records], [16, 16, 8])
  })

  it('in the index never changes an answer, whichever byte it is in', (context) => {
    const store = TestStore.open(context)
    filled(store)
    store.seal()
    store.publish()
    const path = `${store.directoryOf(0)}/index.bin`
    const { byteLength } = readWhole(nodeFiles, path)!
    const all = [...INDEXED, READING[0]!, READING[3]!]
    const whole = all.map((asked) => answerOf(store, asked))
    fc.assert(
      fc.property(fc.nat(byteLength - 1), (at) => {
        damage(store, 'index.bin', at)
        for (const [i, asked] of all.entries()) {
          store.restart()
          const answer = ask(store, asked)
          if (answer.kind === 'ok') assert.deepEqual(JSON.parse(Buffer.from(answer.body).toString()), whole[i])
          else assert.deepEqual('incident' in answer && answer.incident, { kind: 'index', base: 0 })
        }
        damage(store, 'index.bin', at)
      }),
    )
  })

  it('is not a disk that fails to read: the client may try again, nothing is reported for repair', (context) => {
    const store = TestStore.open(context)
    filled(store)
    store.seal()
    store.publish()
    for (const [name, questions] of [
      ['index.bin', [...INDEXED, ...READING]],
      ['records.log', READING],
    ] as const) {
      for (const asked of questions) {
        store.restart()
        store.unreadable = name
        const answer = ask(store, asked)
        assert.deepEqual([answer.kind, 'incident' in answer && answer.incident], ['bundle_read_failed', null])
        store.unreadable = null
        assert.equal(ask(store, asked).kind, 'ok')
      }
    }
  })
})

describe('the deadline of a survey', () => {
  it('ends it between any two pieces of its work', (context) => {
    const store = TestStore.open(context)
    for (let i = 0; i < 3; i++) {
      store.add('acme', [{ dataset: 'orders', time: BigInt(i + 1), trace: null, text: `${i}` }])
      store.seal()
      if (i < 2) store.publish()
    }
    for (const asked of [...INDEXED, ...READING]) {
      let looks = 0
      Object.defineProperty(store.clock, 'nowMs', { get: () => looks++, configurable: true })
      const run = (deadlineAtMs: number) => store.askSurvey('acme', questionOf(asked), store.snapshot(), deadlineAtMs)
      assert.equal(run(Infinity).kind, 'ok')
      const needed = looks
      assert(needed >= 3)
      for (let deadline = 0; deadline < needed; deadline++) {
        looks = 0
        assert.equal(run(deadline).kind, 'deadline_exceeded')
        assert.equal(looks, deadline + 1)
      }
    }
  })
})
