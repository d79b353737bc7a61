/** What a run needs on the broker before it is measured: its streams, and records to claim or to replay. */
import { RefusedError } from '../workload.ts'
import { refusalKind } from './answers.ts'
import { BATCH_MAX, BODY_BYTES_MAX } from './limits.ts'
import { streamName, streamPath } from './names.ts'
import { PublishSource, RecordNumbers } from './publish-source.ts'
import { assertSuccess } from './requests.ts'
import type { Requests } from './requests.ts'
import type { BrokerLoad } from './service.ts'

const PUBLISHERS = 4
const SAY_EVERY_RECORDS = 500_000

/** @throws ConnectionError, RefusedError */
export async function createStreams(requests: Requests, streams: number): Promise<void> {
  await requests.connected(async (send) => {
    for (let stream = 0; stream < streams; stream++) {
      const response = await send(requests.build('PUT', streamPath(stream), '{}'))
      if (response.status === 409 && refusalKind(response) === 'stream_already_exists') continue
      assertSuccess(response, `the creation of ${streamName(stream)}`)
    }
  })
}

/** Batches for streams that others read: one after the other, to the stream that needs them. */
export class Filling {
  readonly #load: BrokerLoad
  readonly #batch: number
  readonly #numbers: RecordNumbers

  constructor(load: BrokerLoad) {
    this.#load = load
    this.#batch = Math.max(1, Math.min(BATCH_MAX, Math.floor(BODY_BYTES_MAX / (load.payload.length + 200))))
    this.#numbers = new RecordNumbers(load.streams, this.#batch)
  }

  openSource(): PublishSource {
    const { requests, messageIdPrefix, payload } = this.#load
    const options = { requests, batch: this.#batch, messageIdPrefix, payload, durabilityMode: null }
    return new PublishSource(options, this.#numbers, null)
  }

  /**
   * Publishes until the streams have so many records together, or a few more: the last batch is a whole one.
   *
   * @param there how many a stream has already
   * @throws ConnectionError, RefusedError
   */
  async topUp(records: number, there: (stream: number) => Promise<number>, say: (line: string) => void): Promise<void> {
    const missing: number[] = []
    for (let stream = 0; stream < this.#load.streams; stream++) {
      missing.push(Math.max(0, Math.ceil(records / this.#load.streams) - (await there(stream))))
    }
    const all = missing.reduce((sum, count) => sum + count, 0)
    let published = 0
    let saidAt = 0
    const publish = (): Promise<void> =>
      this.#load.requests.connected(async (send) => {
        const source = this.openSource()
        for (;;) {
          const stream = missing.findIndex((count) => count > 0)
          if (stream < 0) return
          missing[stream]! -= this.#batch
          const response = await send(source.publishTo(stream))
          assertSuccess(response, `publishing to ${streamName(stream)}`)
          const { refused, units } = source.succeeded(response)
          if (refused[0] !== undefined) throw new RefusedError(`publishing to ${streamName(stream)}: ${refused[0]}`)
          published += units
          if (published - saidAt < SAY_EVERY_RECORDS) continue
          saidAt = published
          say(`published ${published} of ${all} records beforehand`)
        }
      })
    await Promise.all(Array.from({ length: PUBLISHERS }, publish))
  }
}
