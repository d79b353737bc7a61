/** What the README says of the client library, against the code. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { NativeClient } from '../../src/client/index.ts'
import { blocksOf, document, root, tableOf } from './markdown.ts'
import { temporaryDirectory } from '../support/directories.ts'

const readme = document('README.md')

test('the example of an embedded broker runs as it is, and prints what it says', async () => {
  const [program, printed] = blocksOf(readme, 'embedded')
  const script = program!.text.replaceAll('./data/jobs', `${temporaryDirectory()}/jobs`)
  for (const run of ['first', 'second']) {
    const child = spawn(process.execPath, ['--input-type=module'], { cwd: root, stdio: ['pipe', 'pipe', 'pipe'] })
    child.stdin.end(script)
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    assert.deepEqual([code, stderr, stdout], [0, '', printed!.text], run)
  }
})

test("the README's table of a client's methods names all of them, with their arguments", () => {
  const shown = tableOf(readme, 'Use the broker in your own process').flatMap(([methods]) =>
    Array.from(methods!.matchAll(/`(\w+\([^)]*\))`/g), ([, call]) => call!),
  )
  const methods = Object.entries(Object.getOwnPropertyDescriptors(NativeClient.prototype)).filter(
    ([name]) => name !== 'constructor',
  )
  const calls = methods.map(([name, { value }]) => {
    const [, parameters] = /\(([^)]*)\)/.exec(String(value))! // the code as it runs: without types
    const shownParameters = parameters!.split(',').flatMap((parameter) => {
      const [, argument, isOptional] = /^\s*(\w+)\s*(=)?/.exec(parameter) ?? []
      return argument === undefined ? [] : [isOptional ? `${argument}?` : argument]
    })
    return `${name}(${shownParameters.join(', ')})`
  })
  assert.deepEqual(shown.sort(), calls.sort())
})
