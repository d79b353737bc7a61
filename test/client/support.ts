/** A broker in the test's own process, on a directory of its own; helpers for tests of any client. */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { SdkError, openEmbeddedBroker } from '../../src/client/index.ts'
import type { BrokerClient, EmbeddedBroker, NativeClient } from '../../src/client/index.ts'
import { temporaryDirectory } from '../support/directories.ts'

export const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

const opened: EmbeddedBroker[] = []

/** For a `describe`: closes the brokers that its tests leave open. An open broker keeps its process alive. */
export function closesBrokers(): void {
  after(() => Promise.all(opened.splice(0).map((broker) => broker.close())))
}

export async function openBroker(dataDirectory = `${temporaryDirectory()}/data`): Promise<EmbeddedBroker> {
  const broker = await openEmbeddedBroker({ dataDirectory, logger: SILENT })
  opened.push(broker)
  return broker
}

export async function openClient(): Promise<NativeClient> {
  return (await openBroker()).client({ producerId: 'tester' })
}

let streams = 0

/** A new stream with a name of its own: tests share a broker, but no streams. */
export async function newStream(client: BrokerClient, ...payloads: readonly string[]): Promise<string> {
  const stream = `stream-${streams++}`
  await client.createStream(stream)
  for (const payload of payloads) await client.publish(stream, { message_id: payload, payload })
  return stream
}

/** The error of a refused call. */
export async function refusalOf(call: Promise<unknown>): Promise<SdkError> {
  try {
    await call
  } catch (error) {
    assert(error instanceof SdkError, String(error))
    return error
  }
  return assert.fail('it was not refused')
}

/** The first `count` items; then leaves the loop. */
export async function take<T>(from: AsyncIterable<T>, count: number): Promise<T[]> {
  const taken: T[] = []
  for await (const each of from) if (taken.push(each) === count) break
  return taken
}
