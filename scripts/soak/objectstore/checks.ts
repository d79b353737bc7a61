/**
 * Checks that everything is as the answers said, while no actor works, through the service's own routes only.
 *
 * A1  a listing has exactly the keys that there are, once, in order; what it says of each is what a read says
 * A2  what changed since the last check is read whole, and some of what did not; the rest is looked at by its headers
 * A3  an upload that was begun and neither completed nor aborted is listed, with its parts; one that is over is not
 * A4  what was not answered and is not there now never will be
 */
import assert from 'node:assert/strict'
import type { Random } from '../../../bench/load/random.ts'
import type { Client } from './client.ts'
import { listedPage, lookHead, lookWholeWithTags, noteListedSeen } from './looks.ts'
import type { ListedKey } from './looks.ts'
import type { KeyLedger } from './key-ledger.ts'
import { BUCKETS } from './scene.ts'
import type { Scene } from './scene.ts'
import { assertParts } from './uploader.ts'

const AGAIN_PERCENT = 10
const AT_ONCE = 8

export class Checks {
  readonly #scene: Scene
  readonly #client: Client
  readonly #random: Random

  constructor(scene: Scene, random: Random) {
    this.#scene = scene
    this.#client = scene.newInspector()
    this.#random = random
  }

  /** @param isFinal A4; false: a restart may bring it */
  async run(isFinal: boolean): Promise<void> {
    for (const bucket of BUCKETS) {
      await this.#checkKeys(bucket, isFinal)
      await this.#checkUploads(bucket)
    }
  }

  /** A1 */
  async #checkKeys(bucket: string, isFinal: boolean): Promise<void> {
    const ledgers = this.#scene.keysOf(bucket)
    const listed = new Map((await this.#list(bucket)).map((each) => [each.key, each]))
    for (const key of listed.keys()) assert(this.#scene.key(bucket, key), `${bucket} lists ${key}`)
    const seen = noteListedSeen(new Map(ledgers.map((ledger) => [ledger, ledger.look()])), listed)
    const work = ledgers[Symbol.iterator]()
    const checkSome = async (): Promise<void> => {
      for (const ledger of work) await this.#checkKey(ledger, seen.get(ledger)![0]!.object === null, isFinal)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, checkSome))
  }

  /** A2 */
  async #checkKey(ledger: KeyLedger, isListedAbsent: boolean, isFinal: boolean): Promise<void> {
    const isNew = ledger.known === undefined || ledger.known !== ledger.verified
    if (!isNew && this.#random.between(1, 100) > AGAIN_PERCENT) return lookHead(this.#client, ledger)
    const seen = (await lookWholeWithTags(this.#client, ledger))!
    const isAbsent = seen[0]?.object === null
    assert.equal(isAbsent, isListedAbsent, `${ledger.name} is listed and read in different ways`)
    if (isFinal) ledger.settle(seen)
    ledger.verified = ledger.known ?? null
  }

  async #list(bucket: string): Promise<ListedKey[]> {
    const keys: ListedKey[] = []
    let token: string | null = null
    do {
      const from: string = token === null ? '' : `&continuation-token=${encodeURIComponent(token)}`
      const max = this.#random.between(20, 1000)
      const page = listedPage(await this.#client.get(`/${bucket}?list-type=2&max-keys=${max}${from}`))
      keys.push(...page.keys)
      token = page.next
    } while (token !== null)
    assert.deepEqual(
      keys.map(({ key }) => key),
      [...new Set(keys.map(({ key }) => key))].sort(),
      'in order, none twice',
    )
    return keys
  }

  /** A3 */
  async #checkUploads(bucket: string): Promise<void> {
    const reply = await this.#client.get(`/${bucket}?uploads`)
    const document = reply.document('ListMultipartUploadsResult')
    assert.equal(document.text('IsTruncated'), 'false')
    const listed = new Set(document.texts('Upload/UploadId'))
    for (const upload of this.#scene.uploads.values()) {
      if (upload.ledger.bucket !== bucket) continue
      const { fate, id } = upload
      if (fate === 'open') {
        assert(listed.has(id), `upload ${id} is gone`)
        const parts = await this.#client.get(upload.target)
        assertParts(upload, parts.document('ListPartsResult').texts('Part/ETag'))
      }
      if (fate === 'completed' || fate === 'aborted') assert(!listed.has(id), `upload ${id} was ${fate}, and is listed`)
    }
  }
}
