import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { readWhole } from '../../../src/log/files.ts'
import { headBytesOf, readIndexHeader } from '../../../src/logstore/index/index-file.ts'
import { TRACES, TestStore, textsOf } from '../../support/stored-segments.ts'

describe('damage that a query comes upon', () => {
  const filled = (store: TestStore): number[] => {
    const positions = ['a', 'b', 'c'].map((text, i) =>
      store.add('acme', [
        { dataset: 'orders', time: BigInt(i + 1), trace: TRACES[0]!, text },
        { dataset: 'payments', time: BigInt(i + 1), trace: null, text: `${text}'` },
      ]),
    )
    return positions
  }
  const damage = (store: TestStore, name: string, at: number): void => {
    const file = nodeFiles.open(`${store.directoryOf(0)}/${name}`, 'write')
    const byte = Buffer.alloc(1)
    file.read(byte, at)
    file.writev([Buffer.from([byte[0]! ^ 1])], at)
    file.close()
  }

  for (const sealed of [false, true]) {
    it(`in a frame of a${sealed ? ' bundle' : 'n unsealed segment'} is a rejection that names it; once it is quarantined the rest is served and counted`, (context) => {
      const store = TestStore.open(context)
      const [, second, third] = filled(store)
      if (sealed) {
        store.seal()
        store.publish()
      }
      damage(store, 'records.log', second! + 200)
      const answer = store.ask('acme', { dataset: 'orders' })
      assert.equal(answer.kind, 'bundle_read_failed')
      assert.deepEqual('incident' in answer && answer.incident, { kind: 'frame', base: 0, position: second })
      assert.deepEqual(textsOf(store.query('acme', { dataset: 'orders', page: { limit: 1 } })), ['a'])

      store.quarantined = [
        { from: second!, to: third! },
        { from: second!, to: second! + 8 },
      ] // the same frame, twice
      for (const filter of [{}, { trace_id: TRACES[0]! }, { start_time_unix_nano: 0 }]) {
        const reply = store.query('acme', { dataset: 'orders', filter })
        assert.deepEqual([textsOf(reply), reply.matched_records, reply.quarantined_records], [['a', 'c'], 2, 1])
      }
      const outside = store.query('acme', { dataset: 'orders', filter: { start_time_unix_nano: 3 } })
      assert.deepEqual([textsOf(outside), outside.quarantined_records], [['c'], undefined])
    })
  }

  for (const sealed of [false, true]) {
    it(`in a frame of a${sealed ? ' bundle' : 'n unsealed segment'} ends the search that reads it, and once it is quarantined the search says how many it could not read`, (context) => {
      const store = TestStore.open(context)
      const [, second] = filled(store)
      if (sealed) {
        store.seal()
        store.publish()
      }
      damage(store, 'records.log', second! + 200)
      for (const order of ['asc', 'desc']) {
        for (const search of ['b', 'a', '-nothing', { text: 'c' }]) {
          // Whatever a search looks for may have stood in the damaged frame.
          const answer = store.ask('acme', { dataset: 'orders', filter: { search }, order })
          assert.equal(answer.kind, 'bundle_read_failed')
          assert.deepEqual('incident' in answer && answer.incident, { kind: 'frame', base: 0, position: second })
        }
      }
      const before = { start_time_unix_nano: 0, end_time_unix_nano: 2, search: 'a' }
      assert.deepEqual(textsOf(store.query('acme', { dataset: 'orders', filter: before })), ['a'])

      store.quarantined = [{ from: second!, to: second! + 8 }]
      for (const [search, found] of [
        ['b', []],
        ['a', ['a']],
        ['-nothing', ['a', 'c']],
      ] as const) {
        const reply = store.query('acme', { dataset: 'orders', filter: { search } })
        assert.deepEqual([textsOf(reply), reply.matched_records, reply.quarantined_records], [found, found.length, 1])
      }
    })
  }

  it('in the index is a rejection that names the bundle, and a rebuilt index answers again', (context) => {
    const store = TestStore.open(context)
    filled(store)
    store.seal()
    store.publish()
    const whole = store.query('acme', { dataset: 'orders' })
    store.restart()
    const bytes = readWhole(nodeFiles, `${store.directoryOf(0)}/index.bin`)!
    const header = readIndexHeader(bytes, bytes.byteLength)
    assert.ok('base' in header)
    damage(store, 'index.bin', headBytesOf(header)) // the first of its entries
    const answer = store.ask('acme', { dataset: 'orders' })
    assert.equal(answer.kind, 'bundle_read_failed')
    assert.deepEqual('incident' in answer && answer.incident, { kind: 'index', base: 0 })
    const [segment] = store.segments
    segment!.row = store.index(segment!, true)
    assert.deepEqual(store.query('acme', { dataset: 'orders' }), whole)
  })

  it('in the index never changes an answer, whichever byte it is in', (context) => {
    const store = TestStore.open(context)
    filled(store)
    store.seal()
    store.publish()
    const path = `${store.directoryOf(0)}/index.bin`
    const bytes = readWhole(nodeFiles, path)!
    const filters = [{}, { trace_id: TRACES[0]! }, { start_time_unix_nano: 2 }]
    const bodies = filters.map((filter) => ({ dataset: 'orders', filter }))
    const whole = bodies.map((body) => store.query('acme', body))
    fc.assert(
      fc.property(fc.nat(bytes.byteLength - 1), (at) => {
        damage(store, 'index.bin', at)
        store.restart()
        for (const [i, body] of bodies.entries()) {
          const answer = store.ask('acme', body)
          if (answer.kind === 'ok') assert.deepEqual(JSON.parse(Buffer.from(answer.body).toString()), whole[i])
          else assert.deepEqual('incident' in answer && answer.incident, { kind: 'index', base: 0 })
        }
        damage(store, 'index.bin', at)
      }),
    )
  })

  it('is the missing file of a bundle: index.bin is rebuilt, a bundle that is gone altogether is asked for again', (context) => {
    const store = TestStore.open(context)
    filled(store)
    store.seal()
    store.publish()
    const missing = `${store.directoryOf(0)}/index.bin`
    nodeFiles.removeFile(missing)
    const answer = store.ask('acme', { dataset: 'orders' })
    assert.deepEqual('incident' in answer && answer.incident, { kind: 'index', base: 0 })
    nodeFiles.removeDirectory(store.directoryOf(0))
    const gone = store.ask('acme', { dataset: 'orders' })
    assert.equal(gone.kind, 'bundle_read_failed')
    assert.deepEqual('incident' in gone && gone.incident, null)
  })

  it('is not a disk that fails to read: the client may try again, nothing is reported for repair', (context) => {
    const store = TestStore.open(context)
    filled(store)
    store.seal()
    store.publish()
    for (const name of ['index.bin', 'records.log']) {
      store.restart()
      store.unreadable = name
      const answer = store.ask('acme', { dataset: 'orders' })
      assert.equal(answer.kind, 'bundle_read_failed')
      assert.deepEqual('incident' in answer && answer.incident, null)
      store.unreadable = null
      assert.equal(store.query('acme', { dataset: 'orders' }).results.length, 3)
    }
  })

  it('is a frame that was cut off', (context) => {
    const store = TestStore.open(context)
    const [, , third] = filled(store)
    const file = nodeFiles.open(`${store.directoryOf(0)}/records.log`, 'write')
    for (const length of [third! + 100, third! + 10]) {
      file.truncate(length)
      const answer = store.ask('acme', { dataset: 'orders' })
      assert.deepEqual('incident' in answer && answer.incident, { kind: 'frame', base: 0, position: third })
    }
    file.close()
  })
})

describe('the bundles a thread has open', () => {
  it('are closed when there are too many, and opened again when they are asked', (context) => {
    const store = TestStore.open(context)
    const openFiles = (): number => nodeFiles.list('/proc/self/fd')!.length
    const before = openFiles() // other test files run in this process
    const count = 270
    for (let i = 1; i <= count; i++) {
      store.add('acme', [{ dataset: 'orders', time: BigInt(i), trace: null, text: `${i}` }])
      store.seal()
    }
    store.publish()
    for (let round = 0; round < 2; round++) {
      assert.equal(store.query('acme', { dataset: 'orders', page: { limit: 500 } }).results.length, count)
    }
    assert.ok(openFiles() - before < 2 * 256 + 100)
  })
})
