import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { logRecordOf } from '../../support/batch-payloads.ts'
import { TestStore } from '../../support/stored-segments.ts'
import { steps, survey, withModel } from './support.ts'
import type { DatasetsAnswer, Stored } from './support.ts'

const bytesOf = (records: readonly Stored[]): number =>
  records.reduce((sum, record) => sum + Buffer.byteLength(JSON.stringify(logRecordOf(record))), 0)

const datasets = (
  store: TestStore,
  query = '',
  allowed: readonly string[] | null = null,
  tenant = 'acme',
): DatasetsAnswer => survey(store, tenant, { datasets: query, allowed }) as DatasetsAnswer // as its route documents it

const one = (dataset: string, time: bigint) => ({ dataset, time, trace: null, text: `${dataset} ${time}` })

describe('the datasets of a tenant', () => {
  it('are those it has records of, with their number, bytes, times and signals, however they are spread over segments', () => {
    fc.assert(
      fc.property(steps, fc.constantFrom('acme', 'globex'), (run, tenant) =>
        withModel(run, (model) => {
          const answer = datasets(model.store, '', null, tenant)

          const expected: object[] = ['mail', 'orders', 'payments'].flatMap((dataset) => {
            const { whole, lost } = model.of(tenant, (record) => record.dataset === dataset)
            if (whole.length + lost === 0) return []
            const times = whole.map(({ time }) => time).sort((a, b) => (a < b ? -1 : 1))
            return {
              dataset,
              records: whole.length,
              first_time_unix_nano: times.length === 0 ? null : String(times[0]),
              last_time_unix_nano: times.length === 0 ? null : String(times.at(-1)),
              ...(lost > 0 && { quarantined_records: lost }),
            }
          })
          assert.equal(answer.datasets.length, expected.length)
          for (const [i, { bytes, signals, ...told }] of answer.datasets.entries()) {
            assert.deepEqual(told, expected[i])
            const { dataset, quarantined_records: lost = 0 } = told
            const { whole } = model.of(tenant, (record) => record.dataset === dataset)
            if (lost === 0) assert.deepEqual([bytes, signals], [bytesOf(whole), ['log']])
            else assert(bytes! >= bytesOf(whole))
          }
        }),
      ),
      { numRuns: 60 },
    )
  })

  it('become fewer with the bundles that are removed, and stay through a restart', (context) => {
    const store = TestStore.open(context)
    for (const time of [1n, 2n]) {
      store.add('acme', [one('orders', time), one(`only-${time}`, time)])
      store.seal()
    }
    store.publish()
    const before = datasets(store)
    assert.deepEqual(
      before.datasets.map(({ dataset, records }) => [dataset, records]),
      [
        ['only-1', 1],
        ['only-2', 1],
        ['orders', 2],
      ],
    )
    store.restart()
    assert.deepEqual(datasets(store), before)
    const [dropped] = store.segments.splice(0, 1)
    rmSync(store.directoryOf(dropped!.base), { recursive: true })
    assert.deepEqual(
      datasets(store).datasets.map(({ dataset, records, first_time_unix_nano }) => [
        dataset,
        records,
        first_time_unix_nano,
      ]),
      [
        ['only-2', 1, '2'],
        ['orders', 1, '2'],
      ],
    )
  })

  it('are those that the credential may read, page by page in the order of their names', (context) => {
    const store = TestStore.open(context)
    const names = Array.from({ length: 60 }, (_, i) => `dataset-${String((i * 37) % 60).padStart(2, '0')}`)
    for (const [i, name] of names.entries()) {
      store.add('acme', [one(name, BigInt(i)), one('always', BigInt(i))])
      if (i % 20 === 19) store.seal()
      if (i === 39) store.publish()
    }
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const page: DatasetsAnswer = datasets(store, `limit=3${cursor === null ? '' : `&cursor=${cursor}`}`)
      assert.equal(page.page.cursor, cursor)
      assert(page.datasets.length <= 3)
      for (const { dataset, records } of page.datasets) {
        seen.push(dataset)
        assert.equal(records, dataset === 'always' ? names.length : 1)
      }
      cursor = page.page.next_cursor
    } while (cursor !== null)
    assert.deepEqual(seen, ['always', ...names.toSorted()])
    const allowed = datasets(store, '', ['dataset-07', 'nowhere'])
    assert.deepEqual(
      allowed.datasets.map(({ dataset }) => dataset),
      ['dataset-07'],
    )
  })

  it('are read from each index once', (context) => {
    const store = TestStore.open(context)
    store.add('acme', [one('orders', 1n)])
    store.seal()
    store.publish()
    const first = datasets(store)
    store.unreadable = 'index.bin'
    store.add('acme', [one('orders', 2n)])
    assert.equal(datasets(store).datasets[0]!.records, 2)
    assert.equal(first.datasets[0]!.records, 1)
  })
})
