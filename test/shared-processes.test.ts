/** Files that run in one process share the level outside of any `describe`: a hook there is a hook of all of them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { SHARED } from '../scripts/tests/files.ts'

/** The files, and what they import of the tests. */
function withImports(files: readonly string[], found = new Set<string>()): Set<string> {
  for (const file of files) {
    if (found.has(file)) continue
    found.add(file)
    const imports = readFileSync(file, 'utf8').matchAll(/^(?:import|\} from|import [^;]*? from) '(\.[^']+)'/gm)
    const paths = Array.from(imports, ([, path]) => join(dirname(file), path!))
    withImports(
      paths.filter((path) => path.startsWith('test/')),
      found,
    )
  }
  return found
}

test('tests that share a process have their hooks in a describe, as has what they import', () => {
  const files = withImports(SHARED)
  assert.ok(files.size > SHARED.length && SHARED.length > 100)
  const hasOuterHook = (file: string): boolean => /^(before|after)(Each)?\(/m.test(readFileSync(file, 'utf8'))
  assert.deepEqual([...files].filter(hasOuterHook), [])
  assert(hasOuterHook('test/broker/conformance/suites/shared-node.ts'), 'an outer hook is recognised')
})
