/**
 * PostObject: a browser's form. The fields before its file name the caller, the key and what the object is to be; the file goes to the store as it
 * arrives.
 *
 * F1  no object is stored before the form was read to its end and found to be what the headers claim, the caller was found to have the permission, and
 *     the file to have a size that the policy allows
 * F2  a form that is refused ends the request at once: the rest is not waited for
 * F3  until the caller was found to have the permission, a refusal does not depend on whether the bucket exists
 */
import assert from 'node:assert/strict'
import { isSignedForm } from '../auth/form-signature.ts'
import { checksumsOfObject, digestPlan, parseContentMd5 } from '../body/body-claims.ts'
import type { BodyClaims } from '../body/body-claims.ts'
import { declaredChecksum } from '../body/declared-checksum.ts'
import type { ChecksumAlgorithm } from '../../bodies/checksums.ts'
import { FormBody } from './form-body.ts'
import type { FormFields } from './form-fields.ts'
import { formBoundary } from './part-headers.ts'
import { PostForm } from './post-form.ts'
import { PostPolicy } from './post-policy.ts'
import { FORM_BYTES_MAX } from '../document-limits.ts'
import { finishBody } from '../../finish-body.ts'
import type { BodyWriter, Bucket, ObjectAttributes, Precondition } from '../../operations.ts'
import { demandExpectedOwner } from '../authorize.ts'
import type { FormHandler, GatewayContext, GatewayRequest } from '../handler.ts'
import { demandSize } from '../body/receive-body.ts'
import { withoutAcls } from '../objects/acl.ts'
import { attributesOf } from '../objects/attributes.ts'
import { demandPrecondition, writePrecondition } from '../objects/conditions.ts'
import { formHeaders, formTags, withoutObjectHeaders } from './form-headers.ts'
import { demandConditions, demandTagging } from '../objects/further-actions.ts'
import { demandClaimed, newObject, storeObject } from '../objects/incoming-object.ts'
import { checkKey } from '../objects/object-key.ts'
import { postAnswer } from './post-answer.ts'

export const postObject: FormHandler = async (request, bucketName, context) => {
  const boundary = formBoundary(request.headers.get('content-type') ?? null)
  const upload = new FormUpload(request, bucketName, context)
  const form = new PostForm(boundary, upload)
  const body = await FormBody.open(request, (bytes) => form.push(bytes))
  if (body.contentLength !== null) demandSize(body.contentLength, context.putBytesMax + FORM_BYTES_MAX)
  try {
    await request.body.read({
      chunk(bytes) {
        body.push(bytes)
        return upload.pause()
      },
    })
    body.end()
    form.end()
    return await upload.keep()
  } catch (error) {
    upload.abandon()
    throw error
  }
}

/** The upload as the fields of the form describe it. */
interface FormTarget {
  readonly fields: FormFields
  readonly policy: PostPolicy | null
  readonly claims: BodyClaims
  readonly algorithms: readonly ChecksumAlgorithm[]
  readonly key: string
  readonly attributes: ObjectAttributes
  readonly precondition: Precondition
  /** The request as the form describes it: its principal, headers and tags. */
  readonly asked: GatewayRequest
}

/** Where the file goes. */
interface FormPlace {
  readonly bucket: Bucket
  readonly writer: BodyWriter
}

class FormUpload {
  readonly #request: GatewayRequest
  readonly #bucketName: string
  readonly #context: GatewayContext
  #target: FormTarget | null = null
  #place: FormPlace | null = null
  /** Opens the place for the file; the next chunk waits for it. Null: not begun, or waited for already. */
  #opening: Promise<void> | null = null
  /** Chunks of the file that came with the last field: the connection pauses until there is a place for the body. */
  readonly #early: Buffer[] = []
  #isFull = false
  #onDrain = (): void => {}
  #fileBytes = 0
  #isAbandoned = false

  constructor(request: GatewayRequest, bucketName: string, context: GatewayContext) {
    this.#request = request
    this.#bucketName = bucketName
    this.#context = context
  }

  /** F3 */
  onFields(fields: FormFields): void {
    const { caller, headers: requestHeaders } = this.#request
    const field = (name: string): string | undefined => fields.get(name) ?? undefined
    if (isSignedForm(field)) this.#request.answerAsS3()
    const principal = this.#context.authenticateForm(field, caller)
    const policyField = fields.get('policy')
    const policy = policyField === null ? null : PostPolicy.parse(policyField)
    policy?.check(this.#bucketName, fields, this.#context.nowMs())
    const key = fields.require('key')
    checkKey(key)

    const fieldHeaders = formHeaders(fields)
    const headers = this.#context.ignoresAcls ? withoutAcls(fieldHeaders) : fieldHeaders
    const attributes = { ...attributesOf({ headers }), tags: formTags(fields) }
    const precondition = writePrecondition(requestHeaders, key)
    const claims = { contentMd5: parseContentMd5(headers), sha256: null, checksum: declaredChecksum(headers) }
    const algorithms = checksumsOfObject(claims)
    const asked = {
      ...this.#request,
      caller: { ...caller, principal },
      headers: new Map([...fieldHeaders, ...withoutObjectHeaders(requestHeaders)]),
      requestTags: attributes.tags,
    }
    this.#target = { fields, policy, claims, algorithms, key, attributes, precondition, asked }
    this.#opening = this.#open(this.#target)
  }

  onFile(bytes: Buffer): void {
    this.#fileBytes += bytes.length
    demandSize(this.#fileBytes, this.#context.putBytesMax)
    this.#target?.policy?.checkNotTooLarge(this.#fileBytes)
    if (this.#place === null) this.#early.push(Buffer.from(bytes))
    else if (!this.#place.writer.write(bytes)) this.#isFull = true
  }

  /** Null: no reason to wait. It rejects when the caller may not do this: F2 */
  pause(): Promise<void> | null {
    return this.#opening === null && !this.#isFull ? null : this.#wait()
  }

  /** F1: every chunk was waited for. */
  async keep(): Promise<ReturnType<typeof postAnswer>> {
    assert(this.#target !== null && this.#place !== null, 'the fields come before the file')
    const { fields, policy, claims, algorithms, key, attributes, precondition } = this.#target
    const { bucket, writer } = this.#place
    policy?.checkNotTooSmall(this.#fileBytes)
    const body = await finishBody(writer)
    demandClaimed(claims, body, null)
    const object = newObject({ bucket, key, attributes, body, precondition }, algorithms)
    const summary = await storeObject(this.#context.store, object)
    return postAnswer(this.#request, fields, object, summary)
  }

  abandon(): void {
    this.#isAbandoned = true
    this.#place?.writer.abandon()
    this.#opening?.catch(() => {}) // its refusal is not needed any more
  }

  /** F1, F3 */
  async #open({ asked, key, attributes, precondition, claims, algorithms }: FormTarget): Promise<void> {
    const { store } = this.#context
    const bucket = await this.#context.authorize(asked, 's3:PutObject', this.#bucketName, key)
    demandExpectedOwner(this.#request, bucket)
    await demandTagging(asked, bucket, key, attributes.tags, this.#context)
    await demandConditions(asked, bucket, key, this.#context)
    demandPrecondition(precondition, store, bucket, key)
    if (this.#isAbandoned) return
    const writer = store.receive(null, digestPlan(claims, algorithms), { bucket, key, upload: null })
    writer.onDrain(() => {
      this.#isFull = false
      this.#onDrain()
    })
    this.#place = { bucket, writer }
    for (const bytes of this.#early) if (!writer.write(bytes)) this.#isFull = true
    this.#early.length = 0
  }

  async #wait(): Promise<void> {
    if (this.#opening !== null) {
      const opening = this.#opening
      this.#opening = null
      await opening
    }
    if (!this.#isFull) return
    await new Promise<void>((resolve) => {
      this.#onDrain = resolve
    })
  }
}
