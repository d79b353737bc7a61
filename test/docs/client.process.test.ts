/** What the documents say about the client library, compared with the code. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { HttpNativeClient, NativeClient } from '../../src/client/index.ts'
import { BrokerServer } from '../support/broker.ts'
import { blocksOf, handbook, root, tableOf } from './markdown.ts'
import { temporaryDirectory } from '../support/directories.ts'

const pages = handbook()
/** The flags that the page gives for a checkout. */
const FLAGS = ['--conditions=trilog-sources', '--input-type=module']

test('the example of an embedded broker runs as it is, and prints what it says', async () => {
  const [program, printed] = blocksOf(pages, 'embedded')
  const script = program!.text.replaceAll('./data/jobs', `${temporaryDirectory()}/jobs`)
  for (const run of ['first', 'second']) {
    const child = spawn(process.execPath, FLAGS, { cwd: root, stdio: ['pipe', 'pipe', 'pipe'] })
    child.stdin.end(script)
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    assert.deepEqual([code, stderr, stdout], [0, '', printed!.text], run)
  }
})

for (const [tour, mark] of [
  ['client library', 'client'],
  ['streaming connection', 'streaming'],
] as const)
  test(`the tour of the ${tour} runs as it is, and prints what it says, again as well`, async () => {
    const [program, printed] = blocksOf(pages, mark)
    const server = await BrokerServer.start()
    const script = program!.text.replaceAll('http://127.0.0.1:7400', server.url)
    assert.notEqual(script, program!.text)
    for (const run of ['first', 'second']) {
      const child = spawn(process.execPath, FLAGS, { cwd: root, stdio: ['pipe', 'pipe', 'pipe'] })
      child.stdin.end(script)
      const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
      assert.deepEqual([code, stderr, stdout], [0, '', printed!.text], run)
    }
    await server.stop()
  })

test("the table of a client's methods names all of them, with their arguments", () => {
  const shown = tableOf(pages, 'Use the broker in your own process').flatMap(([methods]) =>
    Array.from(methods!.matchAll(/`(\w+\([^)]*\))`/g), ([, call]) => call!),
  )
  const callsOf = (prototype: object): string[] =>
    Object.entries(Object.getOwnPropertyDescriptors(prototype))
      .filter(([name]) => name !== 'constructor' && name !== 'close')
      .map(callOf)
  const callOf = ([name, { value }]: [string, PropertyDescriptor]): string => {
    const [, parameters] = /\(([^)]*)\)/.exec(String(value))! // the running code has no types
    const shownParameters = parameters!.split(',').flatMap((parameter) => {
      const [, argument, isOptional] = /^\s*(\w+)\s*(=)?/.exec(parameter) ?? []
      return argument === undefined ? [] : [isOptional ? `${argument}?` : argument]
    })
    return `${name}(${shownParameters.join(', ')})`
  }
  assert.deepEqual(shown.sort(), callsOf(NativeClient.prototype).sort())
  assert.deepEqual(shown, callsOf(Object.getPrototypeOf(HttpNativeClient.prototype)).sort())
})
