/** Files that run in one process share the level outside of any `describe`: a hook there is a hook of all of them. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

test('tests that share a process have their hooks in a describe', () => {
  const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { scripts: Record<string, string> }
  const command = scripts['test:covered']!
  assert.match(command, /scripts\/test-shards\.ts /)
  const globs = Array.from(command.matchAll(/'(test\/[^']+)'/g), ([, glob]) => glob!)
  const files = globSync(globs, { cwd: root })
  assert.ok(files.length > 100)
  const hasOuterHook = (file: string): boolean =>
    /^(before|after)(Each)?\(/m.test(readFileSync(`${root}${file}`, 'utf8'))
  assert.deepEqual(files.filter(hasOuterHook), [])
})
