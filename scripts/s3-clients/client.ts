/** A client of S3 that is tried on the object store, and what came of it. */

/** A server that runs. */
export interface Target {
  readonly name: string
  readonly auth: 'local' | 'sigv4'
  readonly endpoint: string
  /** The one key that the server knows; in `local` mode it takes any. */
  readonly keyId: string
  readonly secret: string
  readonly region: string
  /** Empty, for this client and this target alone. */
  readonly directory: string
}

export interface Result {
  readonly check: string
  /** Null: it did what it should. */
  readonly problem: string | null
}

export interface Client {
  readonly name: string
  /** What the server needs beside its defaults. */
  readonly needs: 'nothing' | 'list-v1'
  /** @throws MissingError when it is not installed */
  version(): string
  run(target: Target): AsyncIterable<Result>
}

/** It cannot be tried on this machine, and that is no failure. */
export class MissingError extends Error {
  override readonly name = 'MissingError'
}

export type Checks = Readonly<Record<string, () => void | Promise<void>>>

/** One after the other: a later check may need what an earlier one stored. */
export async function* runChecks(checks: Checks): AsyncIterable<Result> {
  for (const [check, run] of Object.entries(checks)) {
    try {
      await run()
      yield { check, problem: null }
    } catch (error) {
      yield { check, problem: error instanceof Error ? error.message : String(error) }
    }
  }
}
