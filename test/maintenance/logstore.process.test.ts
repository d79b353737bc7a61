/** A log store that is backed up under load: every kind of batch over small bundles. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { checkBatches } from '../../scripts/soak/logstore/checks.ts'
import type { QueryReply } from '../../scripts/soak/logstore/checks.ts'
import { Load, UNLIMITED, bundlesOf } from '../../scripts/soak/logstore/load.ts'
import { underLoad } from '../../scripts/soak/rounds.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { LogStoreServer } from '../support/logstore.ts'
import { seedOf } from '../support/seed.ts'
import { replaceByBackup, trilogJson } from '../support/trilog.ts'
import type { BackupAnswer } from '../support/trilog.ts'
import { eventually } from '../support/waiting.ts'

const ENV = { LOGSTORE_SEGMENT_BYTES: String(1 << 20) }
/** The load goes on while each batch is checked: shorter pauses would take the processor from the checks. */
const PAUSE_MS = 25

describe('a log store that is backed up under load', () => {
  it('is whole in every backup, and goes on from one as if nothing had been', async (context) => {
    const server = await LogStoreServer.start({ policy: [UNLIMITED], env: ENV })
    const load = Load.start(server, { seed: seedOf(context), pauseMs: PAUSE_MS })
    await underLoad(load, server, { rounds: 1 }, async () => {
      await load.during(eventually(async () => (await bundlesOf(server)) > 2))
      const place = `${temporaryDirectory()}/backup`
      const args = ['backup', '--data-dir', server.dataDirectory, '--to', place]
      const { acknowledged } = load.batches
      const { problems } = await load.during(trilogJson<BackupAnswer>(args))
      assert.deepEqual(problems, [])
      const directory = `${temporaryDirectory()}/restored`
      await trilogJson(['restore', '--from', place, '--data-dir', directory])
      const restored = await LogStoreServer.start({
        policy: [UNLIMITED],
        env: { ...ENV, LOGSTORE_DATA_DIR: directory },
      })
      const ask = async (query: object): Promise<QueryReply> =>
        (await restored.request('/v1/query', query)).ok() as QueryReply // the test checks the fields
      for (const batch of acknowledged) await checkBatches(ask, load.batches, [batch])
      assert.doesNotMatch(restored.stderr, /quarantine|cannot be built/)
      await restored.stop()

      await load.stop()
      await trilogJson(args)
      await replaceByBackup(server, place)
      await load.checkEverything()
      await server.stop()
    })
  })
})
