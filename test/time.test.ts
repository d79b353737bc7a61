/** `test/support/waiting.ts` says how tests deal with time. It has the only timers, with few exceptions. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

const MAY_HAVE_TIMERS = [
  'test/support/waiting.ts', // waits with one bound for all tests
  'test/support/process.ts', // likewise, for the end of a process
  'test/support/http.ts', // likewise, for an answer
  'test/support/objectstore.ts', // likewise, for an answer
  'test/scripts/tests/fixtures/', // tests that fail on purpose
  'test/logstore/conformance/slow-senders.process.test.ts', // clients that send a byte now and then
  'test/http/slow-network.test.ts', // waits for a timer inside the library
]
const TIMERS = /\b(setTimeout|setInterval)\(|timers\/promises|AbortSignal\.timeout/

test('tests wait with `eventually` or a clock of their own, not with timers', () => {
  const files = globSync('test/**/*.ts').filter((file) => !MAY_HAVE_TIMERS.some((path) => file.startsWith(path)))
  assert.ok(files.length > 200)
  const self = 'test/time.test.ts'
  assert.deepEqual(
    files.filter((file) => file !== self && TIMERS.test(readFileSync(file, 'utf8'))),
    [],
  )
})
