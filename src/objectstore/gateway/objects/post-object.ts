/**
 * PostObject: a browser's form. What it says before its file is who sends it, where the file goes and what it is to be; the file goes to the
 * store as it comes.
 *
 * F1  nothing is kept before the form was read to its end, the caller was found to be allowed what the form says, and the file to be as
 *     large as its policy wants it
 * F2  a form that is refused ends the request at once: the rest is not waited for
 */
import assert from 'node:assert/strict'
import { checksumsOfObject, digestPlan } from '../../body/body-digests.ts'
import type { BodyClaims } from '../../body/body-digests.ts'
import { declaredChecksum } from '../../body/declared-checksum.ts'
import type { ChecksumAlgorithm } from '../../documents/checksums.ts'
import type { FormFields } from '../../documents/form/form-fields.ts'
import { formBoundary } from '../../documents/form/part-headers.ts'
import { PostForm } from '../../documents/form/post-form.ts'
import { PostPolicy } from '../../documents/form/post-policy.ts'
import { FORM_BYTES_MAX } from '../../documents/limits.ts'
import type { BodyWriter, Bucket, NewObject } from '../../operations.ts'
import type { BucketHandler, GatewayContext, GatewayRequest } from '../handler.ts'
import { demandSize } from '../receive-body.ts'
import { withoutAcls } from './acl.ts'
import { attributesOf } from './attributes.ts'
import { writePrecondition } from './conditions.ts'
import { formHeaders, formTags } from './form-headers.ts'
import { demandClaimed, keepObject } from './incoming-object.ts'
import { checkKey } from './object-key.ts'
import { postAnswer } from './post-answer.ts'

export const postObject: BucketHandler = async (request, bucket, context) => {
  const { headers, body } = request
  const boundary = formBoundary(headers.get('content-type') ?? null)
  if (body.contentLength !== null) demandSize(body.contentLength, context.putBytesMax + FORM_BYTES_MAX)
  const upload = new FormUpload(request, bucket, context)
  const form = new PostForm(boundary, upload)
  try {
    await body.read({
      chunk(bytes) {
        form.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
        return upload.pause()
      },
    })
    form.end()
    return await upload.keep()
  } catch (error) {
    upload.abandon()
    throw error
  }
}

/** What the fields of a form make of it. */
interface FormTarget {
  readonly fields: FormFields
  readonly policy: PostPolicy | null
  readonly claims: BodyClaims
  readonly algorithms: readonly ChecksumAlgorithm[]
  readonly object: Omit<NewObject, 'body' | 'checksums'>
  readonly writer: BodyWriter
}

class FormUpload {
  readonly #request: GatewayRequest
  readonly #bucket: Bucket
  readonly #context: GatewayContext
  #target: FormTarget | null = null
  /** To be waited for by the next chunk; null: it was. */
  #authorized: Promise<unknown> | null = null
  #isFull = false
  #onDrain = (): void => {}
  #fileBytes = 0

  constructor(request: GatewayRequest, bucket: Bucket, context: GatewayContext) {
    this.#request = request
    this.#bucket = bucket
    this.#context = context
  }

  onFields(fields: FormFields): void {
    const { caller, headers: requestHeaders } = this.#request
    const { store } = this.#context
    const principal = this.#context.authenticateForm((name) => fields.get(name) ?? undefined, caller)
    const policyField = fields.get('policy')
    const policy = policyField === null ? null : PostPolicy.parse(policyField)
    policy?.check(this.#bucket.name, fields, this.#context.nowMs())
    const key = fields.require('key')
    checkKey(key)

    const fieldHeaders = formHeaders(fields)
    const headers = this.#context.ignoresAcls ? withoutAcls(fieldHeaders) : fieldHeaders
    const attributes = { ...attributesOf({ headers }), tags: formTags(fields) }
    const precondition = writePrecondition(requestHeaders, key)
    precondition(store.peek(this.#bucket, key))
    const claims = { contentMd5: null, sha256: null, checksum: declaredChecksum(headers) }
    const algorithms = checksumsOfObject(claims)
    const place = { bucket: this.#bucket, key }
    const writer = store.receive(null, digestPlan(claims, algorithms), { ...place, upload: null })
    writer.onDrain(() => {
      this.#isFull = false
      this.#onDrain()
    })
    this.#target = { fields, policy, claims, algorithms, object: { ...place, attributes, precondition }, writer }

    const asked = {
      ...this.#request,
      caller: { ...caller, principal },
      headers: new Map([...requestHeaders, ...fieldHeaders]),
      requestTags: attributes.tags,
    }
    this.#authorized = this.#context.authorize(asked, 's3:PutObject', this.#bucket.name, key)
  }

  onFile(bytes: Buffer): void {
    const { policy, writer } = this.#expectTarget()
    this.#fileBytes += bytes.length
    demandSize(this.#fileBytes, this.#context.putBytesMax)
    policy?.checkNotTooLarge(this.#fileBytes)
    if (!writer.write(bytes)) this.#isFull = true
  }

  /** Null: no reason to wait. It rejects when the caller may not do this: F2 */
  pause(): Promise<void> | null {
    return this.#authorized === null && !this.#isFull ? null : this.#wait()
  }

  /** F1: every chunk was waited for. */
  async keep(): Promise<ReturnType<typeof postAnswer>> {
    const { fields, policy, claims, algorithms, object, writer } = this.#expectTarget()
    policy?.checkNotTooSmall(this.#fileBytes)
    const body = await writer.finish()
    demandClaimed(claims, body)
    const kept = await keepObject(this.#context.store, { ...object, body }, algorithms)
    return postAnswer(this.#request, this.#bucket, fields, object, kept)
  }

  abandon(): void {
    this.#target?.writer.abandon()
    this.#authorized?.catch(() => {}) // nobody asks any more what it refuses
  }

  async #wait(): Promise<void> {
    if (this.#authorized !== null) {
      const authorized = this.#authorized
      this.#authorized = null
      await authorized
    }
    if (!this.#isFull) return
    await new Promise<void>((resolve) => {
      this.#onDrain = resolve
    })
  }

  #expectTarget(): FormTarget {
    assert(this.#target !== null, 'the fields come before the file')
    return this.#target
  }
}
