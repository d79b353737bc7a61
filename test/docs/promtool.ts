/** The tool of Prometheus that checks rules and metrics. If it is not on the PATH, tests that need it are skipped. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'

/** Name and `skip` of a test that needs promtool. */
export function promtoolOrSkip(name: string): { readonly name: string; readonly skip: boolean } {
  const skip = spawnSync('promtool', ['--version']).status !== 0
  const hint = 'go install github.com/prometheus/prometheus/cmd/promtool@latest'
  return { name: skip ? `${name} (skipped: no promtool, run \`${hint}\`)` : name, skip }
}

/** Asserts that promtool finds nothing wrong. @returns its output */
export function promtool(args: readonly string[], input = ''): string {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' })
  assert.equal(status, 0, `${stdout}\n${stderr}`)
  return `${stdout}${stderr}`
}
