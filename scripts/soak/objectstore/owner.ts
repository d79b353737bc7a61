/** Changes its own keys in every way that there is but multipart uploads, one change after the other, and looks at them in between. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { OutgoingHttpHeaders } from 'node:http'
import type { ObjectReply } from '../../../test/support/objectstore.ts'
import type { AskOptions } from './client.ts'
import { lookHead, lookRange, lookTags, lookWhole, lookWholeWithTags } from './looks.ts'
import type { ExpectedObject, KeyLedger, Version } from './key-ledger.ts'
import type { Scene } from './scene.ts'
import { StoreActor, sequenceOf } from './actor.ts'

export interface OwnerOptions {
  readonly seed: number
  readonly pauseMs: number
  /** Prefix of its keys. */
  readonly prefix: string
  readonly keys: number
  readonly buckets: readonly string[]
  /** Sizes of a body: one of these ranges. */
  readonly sizes: readonly (readonly [min: number, max: number])[]
  /** Share of plain puts among its acts. */
  readonly putPercent: number
}

const NO_ETAG = '"00000000000000000000000000000000"'

export class Owner extends StoreActor {
  readonly #keys: readonly KeyLedger[]
  readonly #sizes: OwnerOptions['sizes']
  readonly #putPercent: number

  constructor(scene: Scene, { seed, pauseMs, prefix, keys, buckets, sizes, putPercent }: OwnerOptions) {
    super(scene, seed, pauseMs)
    this.#keys = Array.from({ length: keys }, (_, i) => scene.newKey(buckets[i % buckets.length]!, `${prefix}/${i}`))
    this.#sizes = sizes
    this.#putPercent = putPercent
  }

  protected async act(): Promise<void> {
    const key = this.#pickKey()
    if (key.known === undefined) await this.#settle(key)
    const isAbsent = key.known?.object === null
    if (this.chance(isAbsent ? Math.max(60, this.#putPercent) : this.#putPercent)) return this.#put(key)
    const choice = this.random.between(1, 100)
    if (choice <= 20) return this.#putIf(key)
    if (choice <= 35) return this.#delete(key)
    if (choice <= 43) return this.#deleteTogether()
    if (choice <= 58) return this.#copy(key)
    if (choice <= 73) return this.#tag(key)
    if (choice <= 80) return void (await lookWhole(this.client, key))
    if (choice <= 87) return lookRange(this.client, key, this.random)
    if (choice <= 94) return lookHead(this.client, key)
    await lookTags(this.client, key)
  }

  /** Rules out changes that were not answered: they were asked of a dead process. Where changes may fail, the process may be alive. */
  async #settle(key: KeyLedger): Promise<void> {
    const seen = await lookWholeWithTags(this.client, key)
    if (seen !== null && this.scene.failures !== 'unknown') key.settle(seen)
  }

  async #put(key: KeyLedger): Promise<void> {
    const object = this.#newObject()
    const reply = await this.#change(key, object, 'PUT', key.target, {
      headers: this.headersOf(object),
      body: object.body.bytes,
    })
    if (reply) assertWritten(reply, object)
  }

  async #putIf(key: KeyLedger): Promise<void> {
    const object = this.#newObject()
    const current = key.known?.object
    const mayBe = key.candidates().map((version) => version.object)
    const [headers, holds] = this.#condition(current?.etag ?? null)
    const reply = await this.#change(key, object, 'PUT', key.target, {
      headers: { ...this.headersOf(object), ...headers },
      body: object.body.bytes,
      expected: ['PreconditionFailed', 'NoSuchKey'],
    })
    if (!reply) return
    const isPut = reply.status === 200
    const where = `${key.name} with ${JSON.stringify(headers)} is answered with ${reply.status}`
    assert(
      mayBe.some((there) => holds(there) === isPut),
      where,
    )
    if (isPut) assertWritten(reply, object)
  }

  #condition(etag: string | null): [OutgoingHttpHeaders, (there: ExpectedObject | null) => boolean] {
    switch (this.random.between(1, 3)) {
      case 1:
        return [{ 'if-none-match': '*' }, (there) => there === null]
      case 2:
        return [{ 'if-match': NO_ETAG }, () => false]
      default:
        return [{ 'if-match': `"${etag}"` }, (there) => there !== null && there.etag === etag]
    }
  }

  async #delete(key: KeyLedger): Promise<void> {
    const reply = await this.#change(key, null, 'DELETE', key.target)
    if (reply) assert.equal(reply.status, 204)
  }

  async #deleteTogether(): Promise<void> {
    const picked = Array.from({ length: this.random.between(1, 8) }, () => this.#pickKey())
    const { bucket } = picked[0]!
    const chosen = [...new Set(picked)].filter((key) => key.bucket === bucket)
    const asked = new Map<string, [KeyLedger, Version]>()
    const listed = chosen.map(({ key }) => `<Object><Key>${key}</Key></Object>`)
    const body = `<Delete>${listed.join('')}</Delete>`
    const reply = await this.client.ask('POST', `/${bucket}?delete`, {
      body,
      headers: { 'content-md5': createHash('md5').update(body).digest('base64') },
      onSend: () => {
        for (const key of chosen) asked.set(key.key, [key, key.ask(null)])
      },
      onUndone: () => {
        for (const [key, version] of asked.values()) key.undone(version)
      },
    })
    if (reply === null) return
    const document = reply.document('DeleteResult')
    const deleted = document.texts('Deleted/Key')
    const errors = document.all('Error')
    assert.equal(deleted.length + errors.length, chosen.length, reply.text)
    for (const name of deleted) {
      const [key, version] = asked.get(name)!
      key.answered(version, null)
    }
    for (const error of errors) {
      assert(this.client.failed(error.text('Code')), reply.text)
      const [key, version] = asked.get(error.text('Key')!)!
      if (this.scene.failures === 'undone') key.undone(version)
    }
  }

  async #copy(to: KeyLedger): Promise<void> {
    const from = this.#pickKey()
    const source = from.known?.object
    if (!source || from === to) return
    const attributes = this.newAttributes()
    const [newMetadata, newTags] = [this.chance(50), this.chance(50)]
    const { contentType, metadata } = newMetadata ? attributes : source
    const tags = newTags ? attributes.tags : source.tags
    const object = { body: source.body, etag: source.body.md5, contentType, metadata, tags }
    const reply = await this.#change(to, object, 'PUT', to.target, {
      headers: {
        ...(newMetadata || newTags ? this.headersOf(object) : {}),
        'x-obj-copy-source': from.target,
        'x-obj-metadata-directive': newMetadata ? 'REPLACE' : 'COPY',
        'x-obj-tagging-directive': newTags ? 'REPLACE' : 'COPY',
        'x-obj-copy-source-if-match': `"${source.etag}"`,
      },
    })
    if (reply) assert.equal(reply.document('CopyObjectResult').text('ETag'), `"${object.etag}"`)
  }

  async #tag(key: KeyLedger): Promise<void> {
    const known = key.known
    if (known === undefined) return
    const tags = this.chance(70) ? this.newTags() : {}
    const isDelete = Object.keys(tags).length === 0 && this.chance(50)
    const set = Object.entries(tags).map(([name, value]) => `<Tag><Key>${name}</Key><Value>${value}</Value></Tag>`)
    const object = known.object && { ...known.object, tags }
    const reply = await this.#change(key, object, isDelete ? 'DELETE' : 'PUT', `${key.target}?tagging`, {
      ...(!isDelete && { body: `<Tagging><TagSet>${set.join('')}</TagSet></Tagging>` }),
      expected: ['NoSuchKey'],
    })
    if (reply) assert.equal(reply.status < 300, object !== null, `tags of ${key.name}`)
  }

  /** Null: no answer. A refusal says that nothing changed. */
  async #change(
    key: KeyLedger,
    object: ExpectedObject | null,
    method: string,
    target: string,
    options: AskOptions = {},
  ): Promise<ObjectReply | null> {
    let version: Version | null = null
    const reply = await this.client.ask(method, target, {
      ...options,
      onSend: () => void (version = key.ask(object)),
      onUndone: () => key.undone(version!),
    })
    if (reply === null || version === null) return reply
    if (reply.status < 300) key.answered(version, sequenceOf(reply.header('x-obj-commit-sequence')))
    else key.undone(version)
    return reply
  }

  #newObject(): ExpectedObject {
    const [min, max] = this.#sizes[this.random.between(0, this.#sizes.length - 1)]!
    const body = this.scene.bodies.body(this.random, this.random.between(min, max))
    return { body, etag: body.md5, ...this.newAttributes() }
  }

  #pickKey(): KeyLedger {
    return this.#keys[this.random.between(0, this.#keys.length - 1)]!
  }
}

function assertWritten(reply: ObjectReply, { etag }: ExpectedObject): void {
  assert.equal(reply.header('etag'), `"${etag}"`)
  assert.equal(reply.header('x-obj-durability'), 'synced')
}
