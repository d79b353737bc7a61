/** `trilog` as people and scripts run it, on data directories and backups. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { runCommand } from './command.ts'
import type { Ending, Environment, RunningService } from './process.ts'

export const trilog = (args: readonly string[], env: Environment = {}): Promise<Ending> =>
  runCommand({ entry: 'src/cli/trilog.js', args, env })

/** Runs a command that must succeed. Returns its answer by `--output json`. */
export async function trilogJson<Answer>(args: readonly string[], env: Environment = {}): Promise<Answer> {
  const { code, stdout, stderr } = await trilog([...args, '--output', 'json'], env)
  assert.deepEqual([code, stderr], [0, ''], stdout)
  return JSON.parse(stdout) as Answer // what the test looks into
}

export interface BackupAnswer {
  readonly snapshot: number
  readonly logs: readonly { readonly place: string; readonly from: number; readonly position: number }[]
  readonly copied_files: number
  readonly copied_bytes: number
  readonly reused_files: number
  readonly problems: readonly string[]
}

/** Deletes the store's data, and brings them back from the newest backup. */
export async function replaceByBackup(
  server: RunningService & { readonly dataDirectory: string },
  place: string,
): Promise<void> {
  await server.stop()
  rmSync(server.dataDirectory, { recursive: true })
  await trilogJson(['restore', '--from', place, '--data-dir', server.dataDirectory])
  await server.startAgain()
}
