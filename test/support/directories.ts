/** Directories of tests, which are removed when the test file has ended. */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { directories } from './left-behind.ts'

export function temporaryDirectory(): string {
  const directory = mkdtempSync(`${tmpdir()}/trilog-test-`)
  directories.add(directory)
  return directory
}
