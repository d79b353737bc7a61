/** The load command, run in this process. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { runCommand } from '../../../bench/load/command.ts'
import type { LoadResult } from '../../../bench/load/result.ts'

export interface Ended {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export async function command(args: readonly string[], stop = new AbortController().signal): Promise<Ended> {
  let stdout = ''
  let stderr = ''
  const exitCode = await runCommand(args, {
    stdout: (text) => (stdout += text),
    stderr: { isTerminal: false, columns: 80, write: (text) => (stderr += text) },
    nowMs: () => performance.now(),
    stop,
  })
  return { exitCode, stdout, stderr }
}

/** @param args service first; `--json` is added */
export async function load(args: readonly string[]): Promise<Ended & { result: LoadResult }> {
  const ended = await command([...args, '--json'])
  assert.notEqual(ended.stdout, '', ended.stderr)
  return { ...ended, result: JSON.parse(ended.stdout) as LoadResult } // the command prints one
}

export function directory(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'trilog-load-test-'))
  t.after(() => rmSync(path, { recursive: true }))
  return path
}
