/** The tool of Prometheus that checks rules and metrics. Where there is none on the PATH, tests with it are skipped. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'

/** Behind the name of a test that needs it, and its `skip`. */
export function promtoolOrSkip(name: string): { readonly name: string; readonly skip: boolean } {
  const skip = spawnSync('promtool', ['--version']).status !== 0
  const hint = 'go install github.com/prometheus/prometheus/cmd/promtool@latest'
  return { name: skip ? `${name} (skipped: no promtool, run \`${hint}\`)` : name, skip }
}

/** @returns what it says, when it finds nothing wrong */
export function promtool(args: readonly string[], input = ''): string {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' })
  assert.equal(status, 0, `${stdout}\n${stderr}`)
  return `${stdout}${stderr}`
}
