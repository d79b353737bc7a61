/** A log store with `inject.ts` in every thread of it, and the triggers that break it. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { UNLIMITED } from '../../scripts/soak/load.ts'
import { LogStoreServer, temporaryDirectory } from '../support/server.ts'

const INJECT = fileURLToPath(new URL('inject.ts', import.meta.url))

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

  clear(name: string): void {
    rmSync(`${this.#directory}/${name}`, { force: true })
  }
}

export async function startBreakable(
  env: Readonly<Record<string, string>> = {},
): Promise<{ server: LogStoreServer; faults: Faults }> {
  const faults = new Faults()
  const server = await LogStoreServer.start({ policy: [UNLIMITED], env: { ...faults.env, ...env } })
  mkdirSync(server.dataDirectory, { recursive: true })
  return { server, faults }
}
