/** Directories of tests, which are removed when the test's process ends: behind the servers that it started, which are killed then. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'

const directories = new Set<string>()
process.on('exit', () => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
})

export function temporaryDirectory(): string {
  const directory = mkdtempSync(`${tmpdir()}/trilog-test-`)
  directories.add(directory)
  return directory
}
