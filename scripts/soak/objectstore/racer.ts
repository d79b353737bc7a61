/** Puts several objects under a new key at the same time, each only if there is none: one of them wins. Later it deletes them. */
import assert from 'node:assert/strict'
import { lookWhole } from './looks.ts'
import type { ExpectedObject, KeyLedger, Version } from './key-ledger.ts'
import type { Scene } from './scene.ts'
import { StoreActor, sequenceOf } from './actor.ts'

const RUNNERS = 3
const KEPT_MAX = 20

export class Racer extends StoreActor {
  readonly #bucket: string
  readonly #prefix: string
  #races = 0
  readonly #kept: KeyLedger[] = []

  constructor(
    scene: Scene,
    options: { readonly seed: number; readonly pauseMs: number; readonly bucket: string; readonly prefix: string },
  ) {
    super(scene, options.seed, options.pauseMs)
    this.#bucket = options.bucket
    this.#prefix = options.prefix
  }

  protected async act(): Promise<void> {
    const key = this.scene.newKey(this.#bucket, `${this.#prefix}/${this.#races++}`)
    this.#kept.push(key)
    const runs = await Promise.all(Array.from({ length: RUNNERS }, () => this.#run(key)))
    const winners = runs.filter(({ end }) => end === 'won')
    const isDecided = runs.every(({ end }) => end !== 'unknown')
    const isLost = runs.some(({ end }) => end === 'lost')
    assert(winners.length <= 1 && (winners.length === 1 || !isDecided), `${winners.length} won ${key.name}`)
    if (isLost) key.isThere()
    for (const { version, end } of runs) if (end === 'lost' || (winners[0] && end !== 'won')) key.undone(version)
    if (winners[0]) key.answered(winners[0].version, winners[0].commitSequence)
    await lookWhole(this.client, key)
    if (this.#kept.length > KEPT_MAX) await this.#delete(this.#kept.shift()!)
  }

  async #run(
    key: KeyLedger,
  ): Promise<{ version: Version; end: 'won' | 'lost' | 'unknown'; commitSequence: number | null }> {
    const body = this.scene.bodies.body(this.random, this.random.between(1, 90_000))
    const object: ExpectedObject = { body, etag: body.md5, ...this.newAttributes() }
    let version: Version | null = null
    const reply = await this.client.ask('PUT', key.target, {
      headers: { ...this.headersOf(object), 'if-none-match': '*' },
      body: body.bytes,
      expected: ['PreconditionFailed'],
      onSend: () => void (version = key.ask(object)),
      onUndone: () => key.undone(version!),
    })
    if (reply === null) return { version: version!, end: 'unknown', commitSequence: null }
    const end = reply.status === 200 ? 'won' : 'lost'
    return { version: version!, end, commitSequence: sequenceOf(reply.header('x-obj-commit-sequence')) }
  }

  async #delete(key: KeyLedger): Promise<void> {
    let version: Version | null = null
    const reply = await this.client.ask('DELETE', key.target, {
      onSend: () => void (version = key.ask(null)),
      onUndone: () => key.undone(version!),
    })
    if (reply) key.answered(version!, null)
    else this.#kept.unshift(key)
  }
}
