/** Triggers that break a service whose threads have all loaded `inject.ts`. */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from './directories.ts'
import type { RunningService } from './process.ts'

const INJECT = fileURLToPath(new URL('inject.ts', import.meta.url))

/** A trigger that missed is set again after this time: a log is restarted in place only five times a minute. */
const MISSED_AFTER_MS = 15_000
const LOG_CHARACTERS_SHOWN = 2000

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

  /** For `eventually`: whether the fault has hit, as `failures` counts. A thread that dies between two pieces of work fails nothing, so another one is to die. */
  hits(name: string, content: string, failures: () => number): () => boolean {
    const before = failures()
    let nextAtMs = 0
    return () => {
      if (failures() > before) {
        this.clear(name) // else it may hit later work, too
        return true
      }
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

/** A service whose threads have all loaded `inject.ts`. */
export class Breakable<Server extends RunningService> {
  readonly server: Server
  readonly faults: Faults

  protected constructor(server: Server, faults: Faults) {
    this.server = server
    this.faults = faults
  }

  /** Where the test fails, the runner shows how the service's log ended. */
  protected noteLogOf(context: TestContext): void {
    context.after(() => context.diagnostic(`the log ends with ${this.server.stderr.slice(-LOG_CHARACTERS_SHOWN)}`))
  }

  /** How often the service's log has this text. */
  logged(text: string): number {
    return this.server.stderr.split(text).length - 1
  }
}
