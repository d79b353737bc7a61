/** `trilog backup`, `restore` and `inspect` as people and scripts run them. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { BrokerServer } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import { trilog, trilogJson } from '../support/trilog.ts'
import type { BackupAnswer } from '../support/trilog.ts'
import { snapshot } from './support.ts'

interface Inspected {
  readonly whole: boolean
  readonly logs: readonly {
    readonly service: string
    readonly place: string
    readonly segments: readonly { readonly name: string; readonly form: string }[]
    readonly problems: readonly { readonly where: string; readonly reason: string }[]
  }[]
}

describe('trilog inspect', () => {
  it('reads a directory that a node has without changing anything, and finds a bit that flipped', async () => {
    const server = await ObjectStoreServer.start({ env: { OBJSTORE_SEGMENT_BYTES: String(1 << 20) } })
    const bucket = await server.newBucket()
    for (let n = 0; n < 12; n += 1) await bucket.put(`key-${n}`, Buffer.alloc(300_000, n))
    const held = await trilogJson<Inspected>(['inspect', server.dataDirectory])
    assert(held.whole)
    assert.equal(held.logs[0]!.service, 'objectstore')
    await server.stop()

    const before = snapshot(server.dataDirectory)
    const { code, stdout, stderr } = await trilog(['inspect', server.dataDirectory])
    assert.deepEqual([code, stderr], [0, ''])
    assert.match(stdout, /^objectstore in \.\n[^]*^whole\n$/m)
    assert.deepEqual(snapshot(server.dataDirectory), before)

    const { name } = held.logs[0]!.segments.find(({ form }) => form === 'sealed')!
    const path = `${server.dataDirectory}/segments/${name}/records.log`
    const bytes = readFileSync(path)
    bytes[5000] = bytes[5000]! ^ 8
    writeFileSync(path, bytes)
    const damaged = await trilog(['inspect', server.dataDirectory, '--output', 'json'])
    assert.equal(damaged.code, 1)
    const { whole, logs } = JSON.parse(damaged.stdout) as Inspected
    assert(!whole)
    assert.deepEqual(
      logs[0]!.problems.map(({ where }) => where),
      [`segments/${name}/records.log`],
    )
    const place = `${temporaryDirectory()}/backup`
    const backup = await trilog(['backup', '--data-dir', server.dataDirectory, '--to', place])
    assert.equal(backup.code, 1)
    assert.match(backup.stdout, new RegExp(`^damaged {2}segments/${name}: the store is damaged from \\d+ to \\d+`, 'm'))
    assert.deepEqual(readdirSync(`${place}/snapshots`), ['00000001.json'])
  })
})

describe('trilog restore --to-position', () => {
  it('brings back what a stream was then, and it goes on from there', async () => {
    const server = await BrokerServer.start()
    const stream = await server.newStream()
    await stream.fill(10, (n) => `before ${n}`)
    const place = `${temporaryDirectory()}/backup`
    const args = ['backup', '--data-dir', server.dataDirectory, '--to', place]
    const { logs } = await trilogJson<BackupAnswer>(args)
    await stream.fill(10, (n) => `after ${n}`)
    await trilogJson(args)
    await server.stop()
    const position = String(logs[0]!.position)
    const dataDirectory = `${temporaryDirectory()}/restored`
    await trilogJson(['restore', '--from', place, '--data-dir', dataDirectory, '--to-position', position])
    const restored = await BrokerServer.start({ dataDirectory })
    const { records } = await restored.stream(stream.name).replay('start_offset=0&max_records=100')
    assert.deepEqual(
      records.map(({ payload_hex }) => Buffer.from(payload_hex, 'hex').toString()),
      Array.from({ length: 10 }, (_, n) => `before ${n}`),
    )
    assert.equal((await restored.stream(stream.name).publish()).offset, 10)
    assert.doesNotMatch(restored.stderr, /quarantine|damaged/)
    await restored.stop()
    const behind = ['restore', '--from', place, '--data-dir', `${dataDirectory}-2`, '--to-position', '999999999']
    const { code, stderr } = await trilog(behind)
    assert.equal(code, 1)
    assert.match(
      stderr,
      /no snapshot has position 999999999: the snapshots have 0 to \d+, 0 to \d+ \(backup_position_unknown\)/,
    )
  })
})

describe('two backups at once into a directory', () => {
  it('do no harm: one may be told to wait', async () => {
    const server = await ObjectStoreServer.start()
    const bucket = await server.newBucket()
    await bucket.put('key', 'body')
    const place = `${temporaryDirectory()}/backup`
    const args = ['backup', '--data-dir', server.dataDirectory, '--to', place]
    const both = await Promise.all([trilog(args), trilog(args)])
    assert(both.some(({ code }) => code === 0))
    for (const { code, stderr } of both) if (code !== 0) assert.match(stderr, /wait for it \(backup_place_busy\)/)
    await trilogJson(['backup', '--check', '--to', place])
    await server.stop()
  })
})

describe('what cannot be done', () => {
  const directory = temporaryDirectory()
  writeFileSync(`${directory}/file`, 'something')
  for (const [args, exitCode, says] of [
    [['inspect', `${directory}/nowhere`], 1, /nowhere holds no data: .*data_directory_empty/],
    [['backup', '--data-dir', directory, '--to', `${directory}/to`], 1, /holds no data/],
    [['restore', '--from', directory, '--data-dir', `${directory}/new`], 1, /holds no backup \(backup_missing\)/],
    [['restore', '--check', '--from', `${directory}/nowhere`], 1, /backup_missing/],
    [['backup', '--data-dir', directory, '--to', directory], 1, /is not empty and holds no backup/],
    [['backup', '--to', directory], 2, /^trilog backup needs --data-dir\n$/],
  ] as const) {
    it(`is said in one line, with exit code ${exitCode}: ${args.join(' ').replaceAll(directory, '…')}`, async () => {
      const { code, stdout, stderr } = await trilog(args)
      assert.deepEqual([code, stdout], [exitCode, ''], stderr)
      assert.match(stderr, says)
      assert.match(stderr, /^[^\n]*\n$/)
    })
  }
})
