/** A log store under load, whose disk and threads a test can break. */
import type { TestContext } from 'node:test'
import { Load, UNLIMITED, bundlesOf } from '../../../scripts/soak/logstore/load.ts'
import { Breakable, Faults } from '../../support/faults.ts'
import { LogStoreServer } from '../../support/logstore.ts'
import { eventually } from '../../support/waiting.ts'

/** Segments fill soon, with few records in many frames: faults hit frames, and the time of a check grows with the records. */
const SEGMENT_BYTES = 1 << 20
const LOAD = { recordsPerBatch: 5, recordBytes: 2000, pauseMs: 8 }

export class BreakableStore extends Breakable<LogStoreServer> {
  #loads = 0

  static async start(env: Readonly<Record<string, string>> = {}): Promise<BreakableStore> {
    const faults = new Faults()
    const settings = {
      LOGSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES),
      LOGSTORE_COMPACTION: 'off',
      ...faults.env,
      ...env,
    }
    return new BreakableStore(await LogStoreServer.start({ policy: [UNLIMITED], env: settings }), faults)
  }

  /** A load for one test, in a dataset of its own. */
  load(context: TestContext, seed: number): Load {
    const load = Load.start(this.server, { ...LOAD, seed, dataset: `soak-${this.#loads++}` })
    context.after(() => load.abandon())
    this.noteLogOf(context)
    return load
  }

  /** Goes on with a load until this many more segments are bundles. */
  async sealing(load: Load, segments: number): Promise<void> {
    const before = await bundlesOf(this.server)
    await load.during(eventually(async () => (await bundlesOf(this.server)) >= before + segments))
  }

  /** Status of GET /health. */
  async health(): Promise<number> {
    return (await this.server.request('/health', null)).status
  }
}
