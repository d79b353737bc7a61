/**
 * Makes objects in parts, on its own keys: begins uploads, puts parts, again, as copies, lists them, completes, aborts, does so again when there
 * was no answer or long after, and leaves some open over a restart.
 */
import assert from 'node:assert/strict'
import { Body, hexOf } from './bodies.ts'
import { lookWhole } from './looks.ts'
import type { KeyLedger, Version } from './key-ledger.ts'
import type { Scene } from './scene.ts'
import { StoreActor, sequenceOf } from './actor.ts'
import { UploadLedger } from './upload-ledger.ts'

/** S3's least size of every part but the last. */
const PART_BYTES_MIN = 5 << 20
const LAST_BYTES_MAX = 600_000
const KEYS = 6
const OPEN_MAX = 4
const COMPLETED_KEPT = 10

interface Completed {
  readonly etag: string
  readonly commitSequence: number | null
}

export interface UploaderOptions {
  readonly seed: number
  readonly pauseMs: number
  readonly prefix: string
  readonly bucket: string
}

export class Uploader extends StoreActor {
  readonly #keys: readonly KeyLedger[]
  #open: UploadLedger[] = []
  readonly #over: UploadLedger[] = []

  constructor(scene: Scene, { seed, pauseMs, prefix, bucket }: UploaderOptions) {
    super(scene, seed, pauseMs)
    this.#keys = Array.from({ length: KEYS }, (_, i) => scene.newKey(bucket, `${prefix}/${i}`))
  }

  protected async act(): Promise<void> {
    if (this.#over.length > 0 && this.chance(15)) return this.#comeBack()
    const upload = this.#open[this.random.between(0, this.#open.length - 1)]
    if (upload === undefined || (this.#open.length < OPEN_MAX && this.chance(20))) return this.#begin()
    if (upload.fate === 'completing') return this.#complete(upload)
    if (upload.fate === 'aborting' || this.chance(6)) return this.#abort(upload)
    if (this.chance(10)) return this.#listParts(upload)
    const missing = this.#missing(upload)
    if (missing !== undefined) return this.#put(upload, missing)
    if (this.chance(15)) return this.#put(upload, this.random.between(1, upload.partsPlanned))
    return this.#complete(upload)
  }

  async #begin(): Promise<void> {
    const ledger = this.#keys[this.random.between(0, KEYS - 1)]!
    // One upload of a key at a time: then its versions have an order.
    if (this.#open.some((upload) => upload.ledger === ledger)) return
    if (this.chance(25)) return this.#change(ledger)
    const attributes = this.newAttributes()
    const headers = this.headersOf(attributes)
    const reply = await this.client.ask('POST', `${ledger.target}?uploads`, { headers })
    if (reply === null) return
    const id = reply.document('InitiateMultipartUploadResult').text('UploadId')!
    const upload = new UploadLedger(ledger, id, attributes, this.random.pick([1, 1, 1, 2, 3]))
    this.scene.uploads.set(id, upload)
    this.#open.push(upload)
  }

  /** Overwrites, deletes or reads what an upload made. */
  async #change(ledger: KeyLedger): Promise<void> {
    if (this.chance(50)) return void (await lookWhole(this.client, ledger))
    const body = this.scene.bodies.body(this.random, this.random.between(0, 2000))
    const object = this.chance(40) ? null : { body, etag: body.md5, ...this.newAttributes() }
    let version: Version | null = null
    const reply = await this.client.ask(object ? 'PUT' : 'DELETE', ledger.target, {
      ...(object && { headers: this.headersOf(object), body: body.bytes }),
      onSend: () => void (version = ledger.ask(object)),
      onUndone: () => ledger.undone(version!),
    })
    if (reply) ledger.answered(version!, sequenceOf(reply.header('x-obj-commit-sequence')))
  }

  #missing({ partsPlanned, parts, unsure }: UploadLedger): number | undefined {
    const numbers = Array.from({ length: partsPlanned }, (_, i) => i + 1)
    return numbers.find((number) => !parts.has(number) || unsure.has(number))
  }

  async #put(upload: UploadLedger, number: number): Promise<void> {
    const isLast = number === upload.partsPlanned
    if (isLast && this.chance(30)) return this.#copy(upload, number)
    const bytes = isLast ? this.random.between(1, LAST_BYTES_MAX) : PART_BYTES_MIN
    const piece = this.scene.bodies.piece(this.random, bytes)
    await this.#putPiece(upload, number, piece, () => ({ body: piece }))
  }

  /** Copies a range of one of its objects. */
  async #copy(upload: UploadLedger, number: number): Promise<void> {
    const source = this.#keys.find((key) => key !== upload.ledger && (key.known?.object?.body.size ?? 0) > 0)
    const object = source?.known?.object
    if (!source || !object) return
    const from = this.random.between(0, object.body.size - 1)
    const to = Math.min(object.body.size, from + LAST_BYTES_MAX)
    await this.#putPiece(upload, number, object.body.slice(from, to), () => ({
      headers: {
        'x-obj-copy-source': source.target,
        'x-obj-copy-source-range': `bytes=${from}-${to - 1}`,
        'x-obj-copy-source-if-match': `"${object.etag}"`,
      },
    }))
  }

  async #putPiece(
    upload: UploadLedger,
    number: number,
    bytes: Buffer,
    options: () => { body?: Buffer; headers?: Record<string, string> },
  ): Promise<void> {
    const md5 = hexOf([bytes])
    const { unsure } = upload
    const wasUnsure = unsure.has(number)
    const reply = await this.client.ask('PUT', `${upload.target}&partNumber=${number}`, {
      ...options(),
      onSend: () => void unsure.add(number),
      onUndone: () => void (wasUnsure || unsure.delete(number)),
    })
    if (reply === null) return
    const etag = reply.header('etag') ?? reply.document('CopyPartResult').text('ETag')
    assert.equal(etag, `"${md5}"`)
    upload.parts.set(number, { bytes, md5 })
    unsure.delete(number)
  }

  async #listParts(upload: UploadLedger): Promise<void> {
    const reply = await this.client.ask('GET', upload.target)
    if (reply) assertParts(upload, reply.document('ListPartsResult').texts('Part/ETag'))
  }

  async #complete(upload: UploadLedger): Promise<void> {
    const { ledger, attributes } = upload
    const parts = [...upload.parts].sort(([a], [b]) => a - b)
    const body = new Body(parts.map(([, { bytes }]) => bytes))
    const etag = body.partsEtag
    const answer = await this.#askToComplete(upload, () => {
      upload.fate = 'completing'
      if (upload.completion?.isVoid !== false) upload.completion = ledger.ask({ body, etag, ...attributes })
    })
    if (answer === null) return
    assert.equal(answer.etag, `"${etag}"`)
    ledger.answered(upload.completion!, answer.commitSequence)
    this.#end(upload, 'completed')
  }

  /** Null: no answer; it is asked again. */
  async #askToComplete(upload: UploadLedger, onSend = (): void => {}): Promise<Completed | null> {
    const parts = [...upload.parts].sort(([a], [b]) => a - b)
    const listed = parts.map(([n, { md5 }]) => `<Part><PartNumber>${n}</PartNumber><ETag>"${md5}"</ETag></Part>`)
    const body = `<CompleteMultipartUpload>${listed.join('')}</CompleteMultipartUpload>`
    const reply = await this.client.ask('POST', upload.target, { body, onSend })
    if (reply === null) return null
    const etag = reply.document('CompleteMultipartUploadResult').text('ETag')!
    return { etag, commitSequence: sequenceOf(reply.header('x-obj-commit-sequence')) }
  }

  async #abort(upload: UploadLedger): Promise<void> {
    const mayBeGone = upload.fate === 'aborting'
    const reply = await this.client.ask('DELETE', upload.target, {
      ...(mayBeGone && { expected: ['NoSuchUpload'] }),
      onSend: () => void (upload.fate = 'aborting'),
    })
    if (reply) this.#end(upload, 'aborted')
  }

  #end(upload: UploadLedger, fate: 'completed' | 'aborted'): void {
    upload.fate = fate
    this.#open = this.#open.filter((each) => each !== upload)
    this.#over.push(upload)
    if (this.#over.length <= COMPLETED_KEPT) return
    const [forgotten] = this.#over.splice(0, 1)
    this.scene.uploads.delete(forgotten!.id)
  }

  /** Asks about an upload that is over: completing gives the answer of then and changes nothing, everything else finds no upload. */
  async #comeBack(): Promise<void> {
    const upload = this.#over[this.random.between(0, this.#over.length - 1)]!
    const { completion, fate } = upload
    if (fate === 'completed' && this.chance(70)) {
      const again = await this.#askToComplete(upload)
      if (again === null) return
      const { object, commitSequence } = completion!
      assert.deepEqual(again, { etag: `"${object!.etag}"`, commitSequence }, 'completed again')
      return
    }
    const [method, query] = this.random.pick([
      ['GET', ''],
      ['PUT', '&partNumber=1'],
      ['DELETE', ''],
    ])
    const reply = await this.client.ask(method, `${upload.target}${query}`, {
      ...(method === 'PUT' && { body: 'late' }),
      expected: ['NoSuchUpload'],
    })
    if (reply) assert.equal(reply.header('x-obj-error-code'), 'NoSuchUpload', `${method} of an upload that is ${fate}`)
  }
}

/** @param etags as listed */
export function assertParts({ parts, unsure, id }: UploadLedger, etags: readonly string[]): void {
  const missing = [...parts].filter(([number, { md5 }]) => !unsure.has(number) && !etags.includes(`"${md5}"`))
  assert.deepEqual(
    missing.map(([number]) => number),
    [],
    `parts of upload ${id} that are not listed`,
  )
  assert(
    etags.length >= parts.size && etags.length <= parts.size + unsure.size,
    `upload ${id} lists ${etags.length} parts`,
  )
}
