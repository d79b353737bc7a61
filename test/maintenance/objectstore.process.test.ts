/** An object store that is backed up under load: owners, racers, uploads in parts and deletes, with constant cleaning of small segments. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { describe, it } from 'node:test'
import { Random } from '../../bench/load/random.ts'
import { Load } from '../../scripts/soak/objectstore/load.ts'
import type { Version } from '../../scripts/soak/objectstore/key-ledger.ts'
import { underLoad } from '../../scripts/soak/rounds.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import { HASTENED } from '../support/process.ts'
import { seedOf } from '../support/seed.ts'
import { replaceByBackup, trilogJson } from '../support/trilog.ts'
import type { BackupAnswer } from '../support/trilog.ts'
import { timePasses } from '../support/waiting.ts'
import { entryFile } from '../support/entry.ts'

const ENV = { ...HASTENED, OBJSTORE_SEGMENT_BYTES: String(1 << 20) }
/** Enough load for segments to come and go: shorter pauses would take the processor from the commands. */
const PAUSE_MS = 16
const BACKUPS = 2
const KILLS = 4
/** Kills come within this share of the time of the first backup, as later ones have less to copy. */
const KILLED_WITHIN_SHARE = 0.5

/** The versions that a backup that begins now may have of each key. Call the result when the backup has ended. */
function expectations(load: Load): () => ReadonlyMap<string, readonly Version[]> {
  const begun = load.scene.keys.map((ledger) => ({ ledger, from: ledger.look() }))
  return () => new Map(begun.map(({ ledger, from }) => [ledger.name, ledger.candidates(from)]))
}

async function assertHolds(directory: string, expected: ReadonlyMap<string, readonly Version[]>): Promise<void> {
  const server = await ObjectStoreServer.start({ env: { ...ENV, OBJSTORE_DATA_DIR: directory } })
  assert.doesNotMatch(server.stderr, /quarantine/)
  for (const [name, versions] of expected) {
    const slash = name.indexOf('/')
    const target = `/${name.slice(0, slash)}/${encodeURIComponent(name.slice(slash + 1))}`
    const reply = await server.request('GET', target)
    assert([200, 404].includes(reply.status), reply.text)
    const isThere = reply.status === 200
    const matches = versions.some(({ object }) =>
      object === null ? !isThere : isThere && reply.bytes.equals(object.body.bytes),
    )
    assert(
      matches,
      `${name} has ${reply.status} with ${reply.bytes.byteLength} bytes: none of ${versions.length} versions`,
    )
  }
  await server.stop()
}

describe('an object store that is backed up under load', { concurrency: 1 }, () => {
  it('is whole in every backup: nothing that was acknowledged before is missing, and nothing is changed', async (context) => {
    const seed = seedOf(context)
    const server = await ObjectStoreServer.start({ env: ENV })
    const load = await Load.start(server, { seed, pauseMs: PAUSE_MS })
    await underLoad(load, server, { rounds: 1 }, async () => {
      const place = `${temporaryDirectory()}/backup`
      await load.untilWorked(600)
      const held: { readonly snapshot: number; readonly expected: ReadonlyMap<string, readonly Version[]> }[] = []
      for (let n = 0; n < BACKUPS; n += 1) {
        const ended = expectations(load)
        const args = ['backup', '--data-dir', server.dataDirectory, '--to', place]
        const answer = await load.during(trilogJson<BackupAnswer>(args))
        assert.deepEqual(answer.problems, [])
        held.push({ snapshot: answer.snapshot, expected: ended() })
        await load.during(trilogJson(['inspect', server.dataDirectory])) // files that come and go are no damage
        await load.untilWorked(200)
      }
      const first = Number.parseInt(readdirSync(`${server.dataDirectory}/segments`).sort()[0]!, 16)
      assert(first > 0, 'segments went meanwhile')
      await load.hold()
      await trilogJson(['restore', '--check', '--from', place])
      for (const { snapshot, expected } of held) {
        const directory = `${temporaryDirectory()}/restored`
        await trilogJson(['restore', '--from', place, '--data-dir', directory, '--snapshot', String(snapshot)])
        await assertHolds(directory, expected)
      }
      await trilogJson(['backup', '--data-dir', server.dataDirectory, '--to', place])
      await replaceByBackup(server, place)
      await load.check()
      await load.untilWorked(200)
      await load.finish()
      await server.stop()
    })
  })

  it('is whole in the backup before one that is killed, and never notices', async (context) => {
    const seed = seedOf(context)
    const random = new Random(seed)
    const server = await ObjectStoreServer.start({ env: ENV })
    const load = await Load.start(server, { seed, pauseMs: PAUSE_MS })
    await underLoad(load, server, { rounds: 1 }, async () => {
      const place = `${temporaryDirectory()}/backup`
      await load.untilWorked(300)
      const args = ['backup', '--data-dir', server.dataDirectory, '--to', place]
      const begunMs = performance.now()
      await load.during(trilogJson(args))
      const killedWithinMs = KILLED_WITHIN_SHARE * (performance.now() - begunMs)
      const trilog = entryFile('src/cli/trilog.js')
      let killed = 0
      for (let n = 0; n < KILLS; n += 1) {
        const child = spawn(process.execPath, [trilog, ...args], { stdio: 'ignore' })
        const ended = once(child, 'exit')
        await load.during(timePasses(random.between(0, killedWithinMs)))
        child.kill('SIGKILL')
        killed += Number((await ended)[1] === 'SIGKILL')
        await load.during(trilogJson(['backup', '--check', '--to', place]))
      }
      assert(killed > 0, 'a backup was killed')
      const ended = expectations(load)
      await load.during(trilogJson([...args, '--keep', '1']))
      const expected = ended()
      await load.hold()
      const directory = `${temporaryDirectory()}/restored`
      await trilogJson(['restore', '--from', place, '--data-dir', directory])
      await assertHolds(directory, expected)
      await load.check()
      await load.finish()
      assert.doesNotMatch(server.stderr, /quarantine|request failed/)
      await server.stop()
    })
  })
})
