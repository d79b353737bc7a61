/** A broker with replicas that is backed up under load: publishers, workers, dead letters, cursors, retention and cleaning on small segments. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { describe, it } from 'node:test'
import { ReplayReply } from '../../src/broker/wire/record-answers.ts'
import { Load } from '../../scripts/soak/broker/load.ts'
import { assertPage } from '../../scripts/soak/broker/reader.ts'
import { underLoad } from '../../scripts/soak/rounds.ts'
import { BrokerServer } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { HASTENED } from '../support/process.ts'
import { seedOf } from '../support/seed.ts'
import { replaceByBackup, trilogJson } from '../support/trilog.ts'
import type { BackupAnswer } from '../support/trilog.ts'

const SEGMENT = ['--segment-bytes', String(1 << 20)]
const PAGE_RECORDS = 400

/** Asserts that every record has its old offset, and that none acknowledged before the backup is missing. */
async function assertHolds(directory: string, load: Load, storedEnds: ReadonlyMap<string, number>): Promise<void> {
  const server = await BrokerServer.start({ dataDirectory: directory, flags: SEGMENT, env: HASTENED })
  for (const stream of load.scene.workStreams) {
    let start = 0
    for (let isEnd = false; !isEnd;) {
      const query = `start_offset=${start}&max_records=${PAGE_RECORDS}`
      const page = await server.get(`/v1/streams/${stream.name}/records?${query}`, ReplayReply)
      assertPage(stream, page, start)
      start = page.next_offset
      isEnd = page.end_of_stream
    }
    const storedEnd = storedEnds.get(stream.name)!
    assert(start >= storedEnd, `${stream.name} ends at ${start}, and ${storedEnd} records were acknowledged`)
  }
  assert.doesNotMatch(server.stderr, /quarantine/)
  await server.stop()
}

describe('a broker that is backed up under load', () => {
  it('is whole in every backup, and goes on from one as if nothing had been', async (context) => {
    const replicas = [temporaryDirectory(), temporaryDirectory()]
    const replicaFlags = replicas.flatMap((directory) => ['--replica-dir', directory])
    const flags = [...SEGMENT, ...replicaFlags, '--write-quorum', '2']
    const server = await BrokerServer.start({ flags, env: HASTENED })
    const load = await Load.start(() => server.readyLine.http, { seed: seedOf(context), onlyDurable: true })
    await underLoad(load, server, { rounds: 1 }, async () => {
      const place = `${temporaryDirectory()}/backup`
      const args = ['backup', '--data-dir', server.dataDirectory, ...replicaFlags, '--to', place]
      const held: { readonly snapshot: number; readonly storedEnds: ReadonlyMap<string, number> }[] = []
      for (let n = 0; n < 2; n += 1) {
        await load.untilDelivered(800)
        const storedEnds = new Map(load.scene.workStreams.map(({ name, storedEnd }) => [name, storedEnd]))
        const { snapshot, problems } = await load.during(trilogJson<BackupAnswer>(args))
        assert.deepEqual(problems, [])
        held.push({ snapshot, storedEnds })
      }
      await load.hold()
      for (const { snapshot, storedEnds } of held) {
        const directory = `${temporaryDirectory()}/restored`
        await trilogJson(['restore', '--from', place, '--data-dir', directory, '--snapshot', String(snapshot)])
        await assertHolds(directory, load, storedEnds)
      }
      await trilogJson(args)
      await trilogJson(['backup', '--check', '--to', place])
      for (const replica of replicas) rmSync(replica, { recursive: true })
      await replaceByBackup(server, place)
      await load.check()
      await load.untilDelivered(200)
      await load.finish()
      await server.stop()
    })
  })
})
