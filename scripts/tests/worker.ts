/**
 * A test process: runs the test files that the runner assigns to it, one after the other.
 *
 * A file is imported when the tests of the one before have ended, so that both processes always know which file runs. It is a suite:
 * its outer hooks are for its own tests. What it leaves behind ends with it, so do its changes to the environment.
 *
 * The channel to the runner keeps the process alive only while it waits for an assignment: a test that waits for what can no longer
 * happen empties the event loop, and node:test fails it at once.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { beforeEach, describe } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type { Assignment } from './messages.ts'
import { cleanUpTestFile } from '../../test/support/left-behind.ts'
import { reportFile, tell, tellFailure } from './reporter.ts'

const { channel } = process
const environment = { ...process.env }
assert(channel, 'scripts/test.ts starts this')

beforeEach(() => nextTurn()) // tests that compute would leave no turn in which the runner hears of them

for (;;) {
  tell({ kind: 'idle' })
  channel.ref()
  const [{ file }] = (await once(process, 'message')) as [Assignment] // as the runner sends it
  channel.unref()
  if (file === null) process.exit() // by itself, Node once waited for ever for a socket that a client had left half closed
  if (!(await reportFile(file, () => describe(file, () => load(file)), clear))) process.exit() // what a failed test left open would keep the process alive
}

async function load(file: string): Promise<void> {
  try {
    await import(pathToFileURL(resolve(file)).href)
  } catch (error) {
    tellFailure('the file itself', error)
  }
}

function clear(): void {
  cleanUpTestFile()
  for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name]
  Object.assign(process.env, environment)
}
