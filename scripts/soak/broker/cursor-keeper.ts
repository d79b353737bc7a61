/** Commits and rewinds the cursors of one group, which no other actor sets, and creates a stream now and then. */
import assert from 'node:assert/strict'
import { CursorCommitReply, CursorRewindReply } from '../../../src/broker/wire/group-answers.ts'
import { CreateStreamReply, StreamReply } from '../../../src/broker/wire/record-answers.ts'
import { Actor } from './actor.ts'
import type { CursorLedger } from './cursor-ledger.ts'
import type { Scene } from './scene.ts'

const EXTRA_STREAMS_MAX = 60

export class CursorKeeper extends Actor {
  readonly #cursors: readonly CursorLedger[]
  readonly #name: string
  #rewinds = 0
  #streams = 0

  /** @param name that no other keeper has */
  constructor(scene: Scene, cursors: readonly CursorLedger[], name: string, seed: number, pauseMs: number) {
    super(scene, seed, pauseMs)
    this.#cursors = cursors
    this.#name = name
  }

  protected async act(): Promise<void> {
    const cursor = this.#cursors[this.random.between(0, this.#cursors.length - 1)]!
    const { extraStreams } = this.scene
    if (this.chance(5) && extraStreams.size < EXTRA_STREAMS_MAX) await this.#createStream()
    else if (this.chance(20)) await this.#rewind(cursor)
    else await this.#commit(cursor)
  }

  async #commit(cursor: CursorLedger): Promise<void> {
    const { stream } = cursor.group
    const from = Math.max(0, cursor.highest, stream.floor)
    const isBackwards = this.chance(10) && cursor.isCertain && cursor.highest > stream.floor
    const offset = isBackwards
      ? this.random.between(stream.floor, cursor.highest - 1)
      : this.random.between(from, Math.max(from, stream.storedEnd))
    const answer = await this.client.request(CursorCommitReply, 'PUT', cursor.path, {
      body: { offset },
      expected: ['write_not_allowed'],
      onSend: () => cursor.asked(offset),
      onUndone: () => cursor.refused(),
    })
    if (answer === null) return
    if (answer.kind === 'ok') {
      assert(!isBackwards, `${cursor.path} was committed from ${cursor.highest} back to ${offset}`)
      assert.equal(answer.body.offset, offset)
      cursor.answered(offset)
    } else {
      cursor.refused()
      assert(isBackwards || (await this.#isRemoved(cursor, offset)), `${cursor.path} refuses ${offset}`)
    }
  }

  async #rewind(cursor: CursorLedger): Promise<void> {
    const { stream } = cursor.group
    const offset = this.random.between(stream.floor, stream.storedEnd)
    const reason = `${this.#name} ${this.#rewinds++}`
    const { audit } = this.scene
    const path = `${cursor.path}/rewind`
    const answer = await this.client.request(CursorRewindReply, 'POST', path, {
      body: { offset, reason },
      expected: ['write_not_allowed'],
      onSend() {
        cursor.asked(offset)
        audit.asked('cursor_rewound', reason)
      },
      onUndone() {
        cursor.refused()
        audit.refused('cursor_rewound', reason)
      },
    })
    if (answer === null) return
    if (answer.kind === 'ok') {
      assert.deepEqual([answer.body.offset, answer.body.reason], [offset, reason])
      cursor.answered(offset)
      audit.answered('cursor_rewound', reason)
    } else {
      cursor.refused()
      audit.refused('cursor_rewound', reason)
      assert(await this.#isRemoved(cursor, offset), `${path} refuses ${offset}`)
    }
  }

  /** Retention may have gone beyond it. */
  async #isRemoved({ group: { stream } }: CursorLedger, offset: number): Promise<boolean> {
    const { first_offset: floor } = await this.client.get(StreamReply, `/v1/streams/${stream.name}`)
    stream.floorShown(floor)
    return offset < floor
  }

  async #createStream(): Promise<void> {
    const name = `extra.${this.#name}.${this.#streams++}`
    const { audit, extraStreams } = this.scene
    const answer = await this.client.request(CreateStreamReply, 'PUT', `/v1/streams/${name}`, {
      onSend: () => audit.asked('stream_created', name),
      onUndone: () => audit.refused('stream_created', name),
    })
    if (answer === null) return // it may be there or not
    audit.answered('stream_created', name)
    extraStreams.add(name)
  }
}
