/** Runs the load tool in this process. */
import assert from 'node:assert/strict'
import { runCommand } from '../../bench/load/command.ts'
import type { LoadResult } from '../../bench/load/result.ts'

/** @param args of `npm run load`. @throws AssertionError when one of its requests fails */
export async function load(args: readonly string[], nowMs: () => number): Promise<LoadResult> {
  let stdout = ''
  let stderr = ''
  const exitCode = await runCommand([...args, '--disk-time', '0s', '--json'], {
    stdout: (text) => (stdout += text),
    stderr: { isTerminal: false, columns: 80, write: (text) => (stderr += text) },
    nowMs,
    stop: new AbortController().signal,
  })
  assert.equal(exitCode, 0, stderr)
  const result = JSON.parse(stdout) as LoadResult // our own output
  assert.deepEqual(result.errors, {})
  return result
}
