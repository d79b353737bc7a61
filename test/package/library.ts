/** The client library of a package, used like in other people's programs. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { run } from './program.ts'
import type { Ended } from './program.ts'

const PROGRAM = `
import { HttpNativeClient, openEmbeddedBroker, textOf } from 'trilog/client'
const [url, directory] = process.argv.slice(2)
const use = async (client, stream = 'on-' + process.version) => {
  await client.createStream(stream)
  await client.publish(stream, { message_id: 'm', payload: new TextEncoder().encode('käse') })
  const stop = new AbortController()
  let payload = ''
  await client.subscribeQueue(stream, 'g', { signal: stop.signal, prefetch: 2 }).handle(({ record }) => {
    payload = textOf(record.payload)
    stop.abort()
  })
  const { lag_messages } = await client.describeConsumerGroup(stream, 'g')
  return payload + ' ' + lag_messages
}
const client = await HttpNativeClient.connect(url, { producerId: 'p' })
console.log('http', await use(client))
await client.close()
const streaming = await HttpNativeClient.connect(url, { producerId: 'p', streaming: true })
console.log('streaming', await use(streaming, 'streamed-on-' + process.version))
await streaming.close()
try {
  const broker = await openEmbeddedBroker({ dataDirectory: directory })
  console.log('embedded', await use(broker.client({ producerId: 'p' })))
  await broker.close()
} catch (error) {
  console.log('embedded', error.kind, error.message)
}
`

/** Compiles only with the types of the library. Lines that must not compile are marked. */
export const TYPED = `
import { HttpNativeClient, textOf } from 'trilog/client'
import type { BrokerClient, Delivery } from 'trilog/client'
const client: BrokerClient = await HttpNativeClient.connect('http://localhost', { producerId: 'p', apiKey: 'k' })
const { offset } = await client.publish('s', { message_id: 'm', payload: 'p' })
export const checked: number = offset
export const shown = (delivery: Delivery): string => textOf(delivery.record.payload)
// @ts-expect-error an offset is no text
export const wrong: string = offset
`

/** Runs every kind of client in a project that has the package. */
export function usedClient(node: string, project: string, url: string): Promise<Ended> {
  writeFileSync(join(project, 'program.js'), PROGRAM)
  const args = ['program.js', url, join(project, `data-of-${node.replaceAll('/', '-')}`)]
  return run({ command: node, args, cwd: project })
}

/** The imports of a module or a declaration. */
export function specifiersIn(file: string): readonly string[] {
  const found = codeOf(file).matchAll(
    /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]|^\s*import\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm,
  )
  return Array.from(found, ([, named, bare, later]) => named ?? bare ?? later!)
}

/** By file: the code of a module and of everything that it imports. */
export function importsOf(entry: string, seen = new Map<string, string>()): ReadonlyMap<string, string> {
  if (seen.has(entry)) return seen
  seen.set(entry, codeOf(entry))
  for (const specifier of specifiersIn(entry)) {
    assert.match(specifier, /^\.\.?\//, entry)
    importsOf(join(dirname(entry), specifier), seen)
  }
  return seen
}

const codeOf = (file: string): string => readFileSync(file, 'utf8').replaceAll(/\/\*[^]*?\*\/|(^|\s)\/\/.*$/gm, '')
