/** `mq` as people and scripts run it. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { runCommand } from '../support/command.ts'
import { runToEnd } from '../support/process.ts'
import type { Ending, Environment } from '../support/process.ts'

export const mq = (args: readonly string[], env: Environment = {}): Promise<Ending> =>
  runCommand({ entry: 'src/cli/mq.js', args, env })

/** Runs in a process of its own, without leftovers of other commands. */
export const mqAlone = (args: readonly string[], env: Environment = {}): Promise<Ending> =>
  runToEnd({ entry: 'src/cli/mq.js', args, env })

/** The result of a command that succeeds, by `--output json`. */
export async function mqJson(args: readonly string[], env: Environment = {}): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await mq([...args, '--output', 'json'], env)
  assert.deepEqual([code, stderr], [0, ''], stdout)
  assert.match(stdout, /^[^\n]*\n$/)
  return JSON.parse(stdout) as Record<string, unknown> // the tests check the members
}

/** A command line that is refused. */
export interface RefusedRow {
  /** The row of the specification or the contract. */
  readonly row: string
  readonly args: readonly string[]
  readonly code: 1 | 2
  readonly says: RegExp
}

export async function assertRefusedRow({ args, code, says }: RefusedRow): Promise<void> {
  const ended = await mq(args)
  assert.deepEqual([ended.code, ended.stdout], [code, ''], ended.stderr)
  assert.match(ended.stderr, says)
}

/** Names, contents and times of everything in a directory; null: it does not exist. */
export function snapshot(directory: string): readonly string[] | null {
  if (!existsSync(directory)) return null
  return globSync(`${directory}/**/*`, { withFileTypes: false })
    .sort()
    .map((path) => {
      const { mtimeMs, size } = statSync(path)
      const content = statSync(path).isFile()
        ? createHash('sha256').update(readFileSync(path)).digest('hex')
        : 'directory'
      return `${path} ${mtimeMs} ${size} ${content}`
    })
}
