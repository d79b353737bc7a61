/** Files are short enough to be read in one go. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

const LINES_MAX = 500

test('no file has more than 500 lines', () => {
  const files = globSync('{src,workers,native-free-codecs,test,scripts,bench}/**/*.{ts,js,py}', {
    exclude: ['**/node_modules'],
  })
  assert.ok(files.length > 700)
  const linesOf = (file: string): number => readFileSync(file, 'utf8').split('\n').length - 1
  assert.deepEqual(
    files.filter((file) => linesOf(file) > LINES_MAX),
    [],
  )
})
