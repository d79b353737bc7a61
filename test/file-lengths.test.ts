/** A file can be read in one sitting. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

const LINES_MAX = 500

/** Longer for now, and why. A file that became short enough has no place here. */
const LONGER: Readonly<Record<string, string>> = {
  'src/broker/engine/queue.ts': 'leaves with the operations of the broker, which get files of their own',
  'src/http/uws-exchange.ts': 'the receiving of bodies is being moved out of it',
}

test('no file has more than 500 lines', () => {
  const files = globSync('{src,workers,native-free-codecs,test,scripts,bench}/**/*.{ts,js,py}', {
    exclude: ['**/node_modules'],
  })
  assert.ok(files.length > 700)
  const linesOf = (file: string): number => readFileSync(file, 'utf8').split('\n').length - 1
  const long = files.filter((file) => linesOf(file) > LINES_MAX)
  assert.deepEqual(long.sort(), Object.keys(LONGER).sort())
})
