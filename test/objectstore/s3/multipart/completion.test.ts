import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { BodyDigests } from '../../../../src/objectstore/bodies/incremental-digests.ts'
import type { AwsChunkedFraming } from '../../../../src/objectstore/s3/body/aws-chunked.ts'
import type { Answer, CollectedBody } from '../../../../src/objectstore/s3/handler.ts'
import { DocumentGate } from '../../../../src/objectstore/s3/document-gate.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { FakeBody, headerOf } from '../../../support/object-handlers.ts'
import { completeDocument, elementOf, MIB, TestUploads, textOf } from './support.ts'
import type { Listed } from './support.ts'

type Headers = Readonly<Record<string, string>>

const PART = Buffer.alloc(5 * MIB, 'p')
const sha256 = (bytes: Uint8Array | string): Buffer => createHash('sha256').update(bytes).digest()

function crc32Of(bytes: Uint8Array): string {
  const digests = new BodyDigests({ checksums: ['CRC32'], sha256: false })
  digests.update(bytes)
  return digests.finish().checksums[0]!.value
}

/** A body during whose arrival something else happens. */
class SlowBody extends FakeBody {
  readonly #meanwhile: () => Promise<unknown>

  constructor(text: string, meanwhile: () => Promise<unknown>) {
    super(Buffer.from(text))
    this.#meanwhile = meanwhile
  }

  override async collect(limitBytes: number, framing: AwsChunkedFraming | null): Promise<CollectedBody> {
    await this.#meanwhile()
    return super.collect(limitBytes, framing)
  }
}

/** An upload of two parts: one of 5 MiB, one of three bytes. */
async function twoParts(headers: Headers = {}): Promise<{
  uploads: TestUploads
  uploadId: string
  listed: [Listed, Listed]
}> {
  const uploads = await TestUploads.open()
  const uploadId = await uploads.begin('k', headers)
  const listed: [Listed, Listed] = [
    await uploads.send('k', uploadId, 1, PART),
    await uploads.send('k', uploadId, 2, 'end'),
  ]
  return { uploads, uploadId, listed }
}

describe('completing an upload', () => {
  it('is in work at the gate of long documents from the reading of the list to its end', async (t) => {
    const { uploads, uploadId, listed } = await twoParts()
    const passed: number[] = []
    t.mock.method(DocumentGate.prototype, 'runWithMemory', async (bytes: number, work: () => Promise<unknown>) => {
      assert.equal(uploads.store.upload(uploads.bucket, 'k', uploadId)?.parts.length, 2)
      const result = await work()
      assert.equal(uploads.store.upload(uploads.bucket, 'k', uploadId), null)
      passed.push(bytes)
      return result
    })
    await uploads.complete('k', uploadId, listed)
    assert.deepEqual(passed, [completeDocument(listed).length])
  })

  it('says no more of an ETag that no part has than what can be one', async () => {
    const { uploads, uploadId } = await twoParts()
    const refused = await uploads.complete('k', uploadId, [{ partNumber: 1, etag: 'f'.repeat(1 << 20) }]).then(
      () => assert.fail('no part has it'),
      (error: unknown) => error,
    )
    assert(refused instanceof S3Error)
    assert.equal(refused.code, 'InvalidPart')
    assert.deepEqual(refused.fields, { UploadId: uploadId, PartNumber: 1, ETag: 'f'.repeat(256) })
  })

  it('gives the same answer again, also when the object is another by then', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const headers = { 'if-none-match': '*' }
    const answer = await uploads.complete('k', uploadId, listed, headers)
    await uploads.gateway.put('k', 'later')
    assert.deepEqual(await uploads.complete('k', uploadId, listed, headers), answer)
    assert.deepEqual(await uploads.complete('k', uploadId, ''), answer)
    assert.equal(String(await uploads.read('k')), 'later')
    await assert.rejects(uploads.abort('k', uploadId), { code: 'NoSuchUpload' })
    await assert.rejects(uploads.complete('other', uploadId, listed), { code: 'NoSuchUpload' })
  })

  it('repeats the encryption that the upload was begun with, but for a key of the customer’s own', async () => {
    const kms = { 'x-amz-server-side-encryption': 'aws:kms', 'x-amz-server-side-encryption-aws-kms-key-id': 'key-1' }
    const managed = await twoParts({ ...kms, 'x-amz-server-side-encryption-bucket-key-enabled': 'true' })
    const complete = () => managed.uploads.complete('k', managed.uploadId, managed.listed)
    for (const answer of [await complete(), await complete()]) {
      assert.equal(headerOf(answer, 'x-obj-server-side-encryption'), 'aws:kms')
      assert.equal(headerOf(answer, 'x-obj-server-side-encryption-aws-kms-key-id'), 'key-1')
      assert.equal(headerOf(answer, 'x-obj-server-side-encryption-bucket-key-enabled'), 'true')
    }

    const key = Buffer.alloc(32, 'k')
    const customer = {
      'x-amz-server-side-encryption-customer-algorithm': 'AES256',
      'x-amz-server-side-encryption-customer-key': key.toString('base64'),
      'x-amz-server-side-encryption-customer-key-md5': createHash('md5').update(key).digest('base64'),
    }
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k', customer)
    const part = await uploads.part('k', uploadId, 1, { body: 'end', headers: customer })
    const answer = await uploads.complete('k', uploadId, [{ partNumber: 1, etag: headerOf(part, 'etag')! }])
    assert.equal(headerOf(answer, 'x-obj-server-side-encryption-customer-algorithm'), undefined)
  })

  it('gives both of two requests at the same time the same answer', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const [one, other] = await Promise.all([
      uploads.complete('k', uploadId, listed),
      uploads.complete('k', uploadId, listed),
    ])
    assert.deepEqual(one, other)
  })

  it('gives the same answer when another request completed it while the list was on its way', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const answers: Answer[] = []
    const list = new SlowBody(completeDocument(listed), async () => {
      answers.push(await uploads.complete('k', uploadId, listed))
    })
    answers.push(await uploads.complete('k', uploadId, list, { 'if-none-match': '*' }))
    assert.deepEqual(answers[0], answers[1])
  })

  it('takes ETags with and without quotes, and leaves out what is not listed', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const bare = { ...listed[1], etag: listed[1].etag.replaceAll('"', '') }
    await uploads.complete('k', uploadId, [bare])
    assert.equal(String(await uploads.read('k')), 'end')
  })

  it('is refused when a part is not there, or another one', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const [first, second] = listed
    const etag = '0'.repeat(32)
    for (const [wrong, fields] of [
      [
        { ...second, partNumber: 3 },
        { PartNumber: 3, ETag: second.etag.replaceAll('"', '') },
      ],
      [
        { ...second, etag },
        { PartNumber: 2, ETag: etag },
      ],
    ] as const) {
      const refusal = { code: 'InvalidPart', fields: { UploadId: uploadId, ...fields } }
      await assert.rejects(uploads.complete('k', uploadId, [first, wrong]), refusal)
    }
    await assert.rejects(uploads.complete('k', uploadId, [second, first]), { code: 'InvalidPartOrder' })
    assert.equal((await uploads.complete('k', uploadId, listed)).status, 200)
  })

  it('is refused when a part that is not the last has less than 5 MiB', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    const small = await uploads.send('k', uploadId, 1, PART.subarray(1))
    const last = await uploads.send('k', uploadId, 2, 'end')
    await assert.rejects(uploads.complete('k', uploadId, [small, last]), {
      code: 'EntityTooSmall',
      fields: {
        ProposedSize: 5 * MIB - 1,
        MinSizeAllowed: 5 * MIB,
        PartNumber: 1,
        ETag: small.etag.replaceAll('"', ''),
      },
    })
    assert.equal((await uploads.complete('k', uploadId, [last])).status, 200)
  })

  it('is refused without a list that can be read', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const refused = (body: string, code: string): Promise<void> =>
      assert.rejects(uploads.complete('k', uploadId, body), { code })
    await refused('', 'MalformedXML')
    await refused('<CompleteMultipartUpload><Part>', 'MalformedXML')
    await refused(completeDocument([]), 'InvalidRequest')
    await refused(completeDocument([{ ...listed[0], partNumber: 10_001 }]), 'InvalidArgument')
  })

  it('is refused when the list is another than its digests say', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const body = completeDocument(listed)
    const md5 = createHash('md5').update(body).digest('base64')
    const complete = (headers: Headers) => uploads.complete('k', uploadId, body, headers)
    await assert.rejects(complete({ 'content-md5': `${md5.startsWith('A') ? 'B' : 'A'}${md5.slice(1)}` }), {
      code: 'BadDigest',
    })
    await assert.rejects(complete({ 'x-amz-content-sha256': sha256('other').toString('hex') }), {
      code: 'XAmzContentSHA256Mismatch',
    })
    const right = { 'content-md5': md5, 'x-amz-content-sha256': sha256(body).toString('hex') }
    assert.equal((await complete(right)).status, 200)
  })

  it('is judged by what is under the key: when it is asked for, and at the moment of the change', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const complete = (headers: Record<string, string>) => uploads.complete('k', uploadId, listed, headers)
    await assert.rejects(complete({ 'if-match': '"x"' }), { code: 'NoSuchKey' })
    await uploads.gateway.put('k', 'there')
    await assert.rejects(complete({ 'if-none-match': '*' }), { code: 'PreconditionFailed' })
    await assert.rejects(complete({ 'if-match': '"x"' }), { code: 'PreconditionFailed' })
    const etag = uploads.store.peek(uploads.bucket, 'k')!.etag

    const list = new SlowBody(completeDocument(listed), () => uploads.gateway.put('k', 'another'))
    const raced = uploads.complete('k', uploadId, list, { 'if-match': `"${etag}"` })
    await assert.rejects(raced, { code: 'PreconditionFailed' })
    assert.equal(String(await uploads.read('k')), 'another')

    const nowThere = uploads.store.peek(uploads.bucket, 'k')!.etag
    assert.equal((await complete({ 'if-match': `"${nowThere}"` })).status, 200)
  })

  it('is refused when the size of the whole is another than it says', async () => {
    const { uploads, uploadId, listed } = await twoParts()
    const complete = (size: string) => uploads.complete('k', uploadId, listed, { 'x-amz-mp-object-size': size })
    await assert.rejects(complete('7'), {
      code: 'InvalidRequest',
      message: `The provided 'x-amz-mp-object-size' header value 7 does not match what was computed: ${PART.length + 3}`,
    })
    await assert.rejects(complete('-7'), { code: 'InvalidRequest' })
    assert.equal((await complete(String(PART.length + 3))).status, 200)
  })
})

describe('the checksum of an upload', () => {
  const part = Buffer.from('only')
  const crc32 = crc32Of(part)

  async function onePart(headers: Record<string, string>): Promise<{
    uploadId: string
    uploads: TestUploads
    etag: string
  }> {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k', headers)
    const answer = await uploads.part('k', uploadId, 1, { body: part, headers: { 'x-amz-checksum-crc32': crc32 } })
    return { uploads, uploadId, etag: headerOf(answer, 'etag') ?? '' }
  }

  it('of the parts has to come with each of them', async () => {
    const { uploads, uploadId, etag } = await onePart({ 'x-amz-checksum-algorithm': 'CRC32' })
    const complete = (more: string) => uploads.complete('k', uploadId, [{ partNumber: 1, etag, more }])
    await assert.rejects(complete(''), {
      code: 'InvalidRequest',
      message:
        'The upload was created using a crc32 checksum. The complete request must include the checksum for each part. ' +
        'It was missing for part 1 in the request.',
    })
    await assert.rejects(complete('<ChecksumCRC32>AAAAAA==</ChecksumCRC32>'), { code: 'InvalidPart' })
    await assert.rejects(complete('<ChecksumCRC32C>AAAAAA==</ChecksumCRC32C>'), {
      code: 'BadDigest',
      message: 'The crc32c you specified for part 1 did not match what we received.',
    })
    const answer = await complete(`<ChecksumCRC32>${crc32}</ChecksumCRC32>`)
    assert.match(elementOf(answer, 'ChecksumCRC32'), /^[\w+/]{6}==-1$/)
    assert.equal(elementOf(answer, 'ChecksumType'), 'COMPOSITE')
    assert.equal(headerOf(answer, 'x-obj-checksum-type'), 'COMPOSITE')
  })

  it('of the whole comes from its parts, and is what the request says, or the request is refused', async () => {
    const headers = { 'x-amz-checksum-algorithm': 'CRC32', 'x-amz-checksum-type': 'FULL_OBJECT' }
    const { uploads, uploadId, etag } = await onePart(headers)
    const complete = (value: string) =>
      uploads.complete('k', uploadId, [{ partNumber: 1, etag }], { 'x-amz-checksum-crc32': value })
    await assert.rejects(complete('AAAAAA=='), { code: 'BadDigest' })
    const answer = await complete(crc32)
    assert.equal(elementOf(answer, 'ChecksumCRC32'), crc32)
    assert.equal(headerOf(answer, 'x-obj-checksum-crc32'), crc32)
  })

  it('that nobody chose is none that a part could be listed with', async () => {
    const { uploads, uploadId, etag } = await onePart({})
    const more = `<ChecksumCRC32>${crc32}</ChecksumCRC32>`
    await assert.rejects(uploads.complete('k', uploadId, [{ partNumber: 1, etag, more }]), { code: 'InvalidPart' })
    const answer = await uploads.complete('k', uploadId, [{ partNumber: 1, etag }])
    assert.match(textOf(answer), /<ChecksumCRC64NVME>/)
  })
})
