/**
 * A program: runs the browser entry of the packed library, whose file and whose broker it is told, in a context that has only what browsers
 * have, too. Needs `--experimental-vm-modules`.
 */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { SourceTextModule, createContext } from 'node:vm'
import type * as Library from '../../src/client/browser.ts'

const [, , entry, url] = process.argv
const context = createContext({
  fetch,
  AbortController,
  AbortSignal,
  MessageChannel,
  WebSocket,
  btoa,
  queueMicrotask,
  TextDecoder,
  TextEncoder,
  URL,
  crypto,
  performance,
  setTimeout,
  clearTimeout,
})
const modules = new Map<string, SourceTextModule>()

function load(file: string): SourceTextModule {
  const known = modules.get(file)
  if (known) return known
  const made = new SourceTextModule(readFileSync(file, 'utf8'), { context, identifier: file })
  modules.set(file, made)
  return made
}

const library = load(entry!)
await library.link((specifier, { identifier }) => load(join(dirname(identifier), specifier)))
await library.evaluate()
const { HttpNativeClient, textOf } = library.namespace as typeof Library // it is built from that

async function use(streaming: boolean, stream: string): Promise<string> {
  const client = await HttpNativeClient.connect(url!, { producerId: 'web', streaming })
  await client.createStream(stream)
  const payload = Uint8Array.from({ length: 256 }, (_, i) => i)
  await client.publish(stream, { message_id: 'bytes', payload })
  await client.publish(stream, { message_id: 'text', payload: 'käse', key: 'k' })
  const seen: string[] = []
  for await (const { record } of client.subscribeQueue(stream, 'g', { prefetch: 4 })) {
    if (record.message_id === 'text') seen.push(textOf(record.payload), textOf(record.key!))
    else if (record.payload.every((byte, i) => byte === i)) seen.push(`${record.payload.byteLength} bytes`)
    if (record.message_id === 'text') break
  }
  const refused = await client.describeStream('nowhere').then(
    () => 'found',
    ({ code }: Library.SdkError) => code,
  )
  await client.close()
  return [...seen, refused].join(', ')
}

console.log(await use(false, 'web'))
console.log(`streaming: ${await use(true, 'streamed')}`)
process.exit() // a MessageChannel, which browsers have, keeps Node going
