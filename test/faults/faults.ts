/** A log store with `inject.ts` in every thread of it, and the triggers that break it. */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Load, UNLIMITED, bundlesOf } from '../../scripts/soak/load.ts'
import { LogStoreServer, eventually, temporaryDirectory } from '../support/server.ts'

const INJECT = fileURLToPath(new URL('inject.ts', import.meta.url))

/** A log is restarted in place five times a minute. */
const MISSED_AFTER_MS = 15_000

export class Faults {
  readonly #directory = temporaryDirectory()

  get env(): Record<string, string> {
    return { NODE_OPTIONS: `--import ${INJECT}`, FAULT_DIRECTORY: this.#directory }
  }

  set(name: string, content = ''): void {
    const path = `${this.#directory}/${name}`
    writeFileSync(`${path}.new`, content)
    renameSync(`${path}.new`, path) // never seen half written
  }

  /** For `eventually`: whether somebody was hit, as `failures` counts. A thread that dies between two pieces of work hits nobody: then the next one is to die. */
  hits(name: string, content: string, failures: () => number): () => boolean {
    const before = failures()
    let nextAtMs = 0
    return () => {
      if (failures() > before) return true
      if (performance.now() < nextAtMs) return false
      nextAtMs = performance.now() + MISSED_AFTER_MS
      this.set(name, content)
      return false
    }
  }

  clear(name: string): void {
    rmSync(`${this.#directory}/${name}`, { force: true })
  }
}

/** Segments fill soon, with few records in many frames: faults hit frames, and checks take their time by the record. */
const SEGMENT_BYTES = 1 << 20
const LOAD = { recordsPerBatch: 5, recordBytes: 2000, pauseMs: 2 }

export class BreakableStore {
  readonly server: LogStoreServer
  readonly faults: Faults
  #loads = 0

  static async start(env: Readonly<Record<string, string>> = {}): Promise<BreakableStore> {
    const faults = new Faults()
    const settings = { LOGSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES), ...faults.env, ...env }
    return new BreakableStore(await LogStoreServer.start({ policy: [UNLIMITED], env: settings }), faults)
  }

  private constructor(server: LogStoreServer, faults: Faults) {
    this.server = server
    this.faults = faults
  }

  /** A load for one test, in a dataset of its own. */
  load(context: TestContext, seed: number): Load {
    const load = Load.start(this.server, { ...LOAD, seed, dataset: `soak-${this.#loads++}` })
    context.after(() => load.abandon())
    return load
  }

  /** Goes on with a load until so many more segments are bundles. */
  async sealing(load: Load, segments: number): Promise<void> {
    const before = await bundlesOf(this.server)
    await load.during(eventually(async () => (await bundlesOf(this.server)) >= before + segments))
  }

  /** Status of GET /health. */
  async health(): Promise<number> {
    return (await this.server.request('/health', null)).status
  }
}
