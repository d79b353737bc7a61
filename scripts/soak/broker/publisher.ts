/** Publishes to one stream, one record at a time and in batches, in every class of durability. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { PublishBatchReply, PublishReply } from '../../../src/broker/wire/record-answers.ts'
import type { Acknowledgement } from '../../../src/broker/wire/answers.ts'
import type { RecordDurability } from '../../../src/broker/durability.ts'
import { Actor } from './actor.ts'
import type { Scene } from './scene.ts'
import type { StreamLedger } from './stream-ledger.ts'

const BATCH_RECORDS_MAX = 40
const BACKLOG_PAUSE_MS = 20

type Class = RecordDurability | 'local-quorum'
/** Weakest first: a batch is stored in the strongest class among its records. */
const CLASSES: readonly Class[] = ['volatile', 'local-append', 'local-sync', 'local-quorum']

export class Publisher extends Actor {
  readonly #stream: StreamLedger

  constructor(scene: Scene, stream: StreamLedger, seed: number, pauseMs: number) {
    super(scene, seed, pauseMs)
    this.#stream = stream
  }

  protected async act(): Promise<void> {
    if (backlogOf(this.scene, this.#stream) > this.#stream.plan.backlogMax) return sleep(BACKLOG_PAUSE_MS)
    if (this.chance(50)) await this.#publish()
    else await this.#publishBatch()
  }

  async #publish(): Promise<void> {
    const { name, maker } = this.#stream
    const number = this.#stream.takeNumbers(1)
    const mode = this.#mode()
    const body = { ...maker.body(number), durability_mode: mode }
    const answer = await this.client.request(PublishReply, 'POST', `/v1/streams/${name}/records`, {
      body,
      onUndone: () => this.#stream.undone(number, 1),
    })
    if (answer?.kind !== 'ok') return
    const { offset, next_offset, message_id, payload_bytes, acknowledgement } = answer.body
    assert.deepEqual(
      [next_offset, message_id, payload_bytes],
      [offset + 1, maker.messageId(number), maker.payloadBytesOf(number)],
    )
    this.#acknowledged(acknowledgement, this.#classOf(mode), () => this.#stream.stored(offset, number))
  }

  async #publishBatch(): Promise<void> {
    const { name, maker } = this.#stream
    const count = this.random.between(1, BATCH_RECORDS_MAX)
    const first = this.#stream.takeNumbers(count)
    const modes = Array.from({ length: count }, () => this.#mode())
    const bad = this.chance(10) ? this.random.between(0, count - 1) : -1 // its number is never stored
    const records = modes.map((mode, i) =>
      i === bad ? { message_id: '' } : { ...maker.body(first + i), durability_mode: mode },
    )
    const answer = await this.client.request(PublishBatchReply, 'POST', `/v1/streams/${name}/records/batch`, {
      body: { records },
      onUndone: () => this.#stream.undone(first, count),
    })
    if (answer?.kind !== 'ok') return
    const { results, published_count, next_offset, acknowledgement } = answer.body
    const good = results.flatMap(({ offset }, i) => (offset === undefined ? [] : [{ offset, number: first + i }]))
    const goodCount = bad < 0 ? count : count - 1
    assert.deepEqual([results.length, published_count, good.length], [count, goodCount, goodCount])
    assert(
      good.every(({ offset }, i) => offset === next_offset - goodCount + i),
      'a batch has neighbouring offsets',
    )
    const classes = modes.filter((_, i) => i !== bad).map((mode) => CLASSES.indexOf(this.#classOf(mode)))
    this.#acknowledged(acknowledgement, CLASSES[Math.max(0, ...classes)]!, () => {
      for (const { offset, number } of good) this.#stream.stored(offset, number)
    })
  }

  /** What is only in memory may be lost, and its offset given to another record. */
  #acknowledged({ durability, durable }: Acknowledgement, expected: Class, stored: () => void): void {
    assert.deepEqual([durability, durable], [expected, expected === 'local-sync' || expected === 'local-quorum'])
    if (expected !== 'volatile') stored()
  }

  #mode(): RecordDurability | null {
    if (this.chance(50)) return null
    return this.scene.onlyDurable ? 'local-sync' : this.random.pick(['volatile', 'local-append', 'local-sync'])
  }

  #classOf(mode: RecordDurability | null): Class {
    if (mode !== null) return mode
    return this.#stream.plan.body.default_durability === 'local-quorum' ? 'local-quorum' : 'local-sync'
  }
}

/** Records that the slowest group has not finished. */
export function backlogOf(scene: Scene, stream: StreamLedger): number {
  const { storedEnd } = stream
  const open = scene.groupsOf(stream).map((group) => {
    const from = group.finishedEnd()
    return storedEnd - from - group.countFinished(from, storedEnd).certain
  })
  return Math.max(...open)
}
