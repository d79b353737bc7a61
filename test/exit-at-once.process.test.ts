import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'

const LIBC = new URL('../src/libc.ts', import.meta.url).href
const THREADS = 8

const PROGRAM = `
  import { Worker } from 'node:worker_threads'
  import { exitAtOnce } from ${JSON.stringify(LIBC)}
  process.on('exit', () => console.log('a handler was called'))
  let begun = 0
  const endWhenBegun = () => ++begun === Number(process.argv[1]) && exitAtOnce(7)
  for (let n = 0; n < ${THREADS}; n += 1) {
    new Worker(new URL(${JSON.stringify(LIBC)}), { execArgv: [] }).once('online', endWhenBegun)
  }
`

describe('a process that ends at once', () => {
  it('ends with its code while its threads load, and calls no handlers', () => {
    for (const begun of [1, 2, 4, THREADS]) {
      const args = ['--input-type=module', '-e', PROGRAM, String(begun)]
      const { status, signal, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
      assert.deepEqual([status, signal, stdout], [7, null, ''], stderr)
    }
  })
})
