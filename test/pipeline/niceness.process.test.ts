import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { describe, it } from 'node:test'
import { yieldCore } from '../../src/pipeline/niceness.ts'

const MODULE = new URL('../../src/pipeline/niceness.ts', import.meta.url).href
const SCRIPT = `
  import { readFileSync, readdirSync } from 'node:fs'
  import { stat } from 'node:fs/promises'
  import { getPriority } from 'node:os'
  import { lowerHelperPriority } from ${JSON.stringify(MODULE)}
  await stat('.') // libuv starts its threads
  lowerHelperPriority([String(2 ** 31 - 1), ...readdirSync('/proc/self/task')]) // the first one stands for a thread that has ended
  const threads = readdirSync('/proc/self/task').map(Number).filter((thread) => thread !== process.pid)
  const niceness = { libuv: [], helpers: [] }
  for (const thread of threads) {
    const isOfLibuv = readFileSync('/proc/self/task/' + thread + '/comm', 'utf8').startsWith('libuv')
    niceness[isOfLibuv ? 'libuv' : 'helpers'].push(getPriority(thread))
  }
  console.log(JSON.stringify({ own: getPriority(), ...niceness }))
`

describe('threads of V8', () => {
  it('give way to those that answer, which stay as they are', () => {
    const output = execFileSync(process.execPath, ['--v8-pool-size=0', '--input-type=module', '-e', SCRIPT])
    const { own, libuv, helpers } = JSON.parse(output.toString()) as {
      own: number
      libuv: readonly number[]
      helpers: readonly number[]
    }
    assert.equal(own, getPriority())
    assert(libuv.length > 0 && helpers.length > 0)
    assert(
      libuv.every((niceness) => niceness === own),
      String(libuv),
    )
    assert(
      helpers.every((niceness) => niceness === Math.max(own, 10)),
      String(helpers),
    )
  })
})

describe('a thread with long work', () => {
  it('leaves its core in between', () => {
    /** How often this thread has given up its core voluntarily. */
    const left = (): number =>
      Number(/^voluntary_ctxt_switches:\s*(\d+)$/m.exec(readFileSync('/proc/thread-self/status', 'utf8'))![1])
    const before = left()
    for (let n = 0; n < 10; n += 1) yieldCore()
    assert(left() >= before + 10)
  })
})
