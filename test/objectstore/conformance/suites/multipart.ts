/** Multipart uploads: specification "Multipart upload", contract "Object store", and otherwise Amazon S3. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { xxhash128, xxhash3, xxhash64 } from 'hash-wasm'
import { store } from './shared-store.ts'

const MIB = 1 << 20
const bucket = await store.newBucket()
const md5 = (body: string | Buffer): Buffer => createHash('md5').update(body).digest()

describe('a multipart upload', () => {
  const five = Buffer.alloc(5 * MIB, 'five')

  it('puts its parts together by their numbers; its ETag is that of their ETags, with their count', async () => {
    const upload = await bucket.newUpload('big', {
      'content-type': 'a/b',
      'x-obj-meta-is': 'big',
      'x-obj-tagging': 't=1',
    })
    const last = await upload.part(9, 'end')
    const first = await upload.part(2, five)
    const reply = await upload.complete([
      [2, first],
      [9, last],
    ])
    const etag = `"${createHash('md5')
      .update(Buffer.concat([md5(five), md5('end')]))
      .digest('hex')}-2"`
    const completed = reply.document('CompleteMultipartUploadResult')
    assert.equal(completed.text('ETag'), etag)
    assert.match(completed.text('Location')!, new RegExp(`^http://.*/${bucket.name}/big$`))
    const got = await bucket.ask('GET', '/big')
    assert(got.bytes.equals(Buffer.concat([five, Buffer.from('end')])))
    assert.deepEqual(
      ['etag', 'content-type', 'x-obj-meta-is', 'x-obj-tagging-count'].map((name) => got.header(name)),
      [etag, 'a/b', 'big', '1'],
    )
  })
  it('ranges go across parts; partNumber reads one', async () => {
    const range = { headers: { range: `bytes=${5 * MIB - 2}-${5 * MIB}` } }
    assert.equal((await bucket.ask('GET', '/big', range)).succeeded(206).text, 'vee')
    const part = (await bucket.ask('GET', '/big?partNumber=9')).succeeded(206)
    assert.deepEqual([part.text, part.header('x-obj-mp-parts-count')], ['end', '2'])
    ;(await bucket.ask('GET', '/big?partNumber=3')).refused('InvalidPartNumber')
    const single = await bucket.newUpload('single')
    ;(await single.complete([[1, await single.part(1, 'alone')]])).succeeded(200)
    const only = (await bucket.ask('GET', '/single?partNumber=1')).succeeded(206)
    assert.deepEqual(
      [only.text, only.header('content-range'), only.header('x-obj-mp-parts-count')],
      ['alone', 'bytes 0-4/5', '1'],
    )
    ;(await bucket.ask('GET', '/single?partNumber=2')).refused('InvalidPartNumber')
  })
  it('completed again gives the same answer, at the same time too', async () => {
    const upload = await bucket.newUpload('again')
    const etag = await upload.part(1, 'part')
    const replies = await Promise.all([1, 2, 3].map(() => upload.complete([[1, etag]])))
    replies.push(await upload.complete([[1, etag]]))
    const texts = new Set(replies.map((reply) => reply.succeeded(200).text))
    assert.equal(texts.size, 1)
    assert.equal(new Set(replies.map((reply) => reply.header('x-obj-version-id'))).size, 1)
  })
  it('completed, and completed again, it names the encryption that it was begun with', async () => {
    const upload = await bucket.newUpload('encrypted', { 'x-amz-server-side-encryption': 'AES256' })
    const etag = await upload.part(1, 'part')
    for (const reply of [await upload.complete([[1, etag]]), await upload.complete([[1, etag]])]) {
      assert.equal(reply.succeeded(200).header('x-obj-server-side-encryption'), 'AES256')
    }
  })
  it('a part that is sent again replaces the former', async () => {
    const upload = await bucket.newUpload('replaced')
    const former = await upload.part(1, 'former')
    const etag = await upload.part(1, 'latter')
    ;(await upload.complete([[1, former]])).refused('InvalidPart')
    ;(await upload.complete([[1, etag]])).succeeded(200)
    assert.equal(await bucket.read('replaced'), 'latter')
  })
  it('lists its parts in pages', async () => {
    const upload = await bucket.newUpload('listed')
    for (const number of [3, 1, 10_000]) await upload.part(number, `${number}`)
    const page = async (query: string) => (await upload.ask('GET', query)).document('ListPartsResult')
    const first = await page('&max-parts=2')
    assert.deepEqual(
      [
        first.texts('Part/PartNumber'),
        first.text('IsTruncated'),
        first.text('NextPartNumberMarker'),
        first.text('MaxParts'),
      ],
      [['1', '3'], 'true', '3', '2'],
    )
    const rest = await page('&part-number-marker=3')
    assert.deepEqual([rest.texts('Part/PartNumber'), rest.text('IsTruncated')], [['10000'], 'false'])
    assert.equal(rest.text('Part/ETag'), `"${md5('10000').toString('hex')}"`)
  })
  it('refusals: part numbers, sizes, order, unknown parts, no parts, another key, no such upload', async () => {
    const upload = await bucket.newUpload('refusals')
    for (const number of ['0', '10001', 'a', '-1', '']) {
      ;(await upload.ask('PUT', `&partNumber=${number}`, { body: 'x' })).refused('InvalidArgument')
    }
    const one = await upload.part(1, 'small')
    const two = await upload.part(2, 'two')
    const small = (
      await upload.complete([
        [1, one],
        [2, two],
      ])
    ).refused('EntityTooSmall')
    assert.deepEqual(
      ['PartNumber', 'ProposedSize', 'MinSizeAllowed'].map((name) => small.text(name)),
      ['1', '5', String(5 * MIB)],
    )
    ;(
      await upload.complete([
        [2, two],
        [1, one],
      ])
    ).refused('InvalidPartOrder')
    ;(await upload.complete([[3, one]])).refused('InvalidPart')
    ;(await upload.complete([[1, two]])).refused('InvalidPart')
    ;(await upload.complete([])).refused('InvalidRequest')
    for (const body of ['', 'nonsense', '<CompleteMultipartUpload><Part/></CompleteMultipartUpload>']) {
      ;(await upload.ask('POST', '', { body })).refused('MalformedXML')
    }
    ;(await bucket.ask('GET', `/other?uploadId=${upload.id}`)).refused('NoSuchUpload')
    for (const id of ['', 'nonsense', '%00', 'x'.repeat(500)]) {
      ;(await bucket.ask('GET', `/refusals?uploadId=${id}`)).refused('NoSuchUpload')
      ;(await bucket.ask('PUT', `/refusals?partNumber=1&uploadId=${id}`, { body: 'x' })).refused('NoSuchUpload')
    }
    ;(await upload.complete([[2, two]])).succeeded(200)
  })
  it('conditional completion: If-None-Match: *', async () => {
    await bucket.put('exists', 'former')
    const upload = await bucket.newUpload('exists')
    const etag = await upload.part(1, 'latter')
    ;(await upload.complete([[1, etag]], { 'if-none-match': '*' })).refused('PreconditionFailed')
    assert.equal(await bucket.read('exists'), 'former')
    ;(await upload.complete([[1, etag]])).succeeded(200)
  })
  it('nothing of it is seen before it is completed, nor after it is aborted', async () => {
    const upload = await bucket.newUpload('unseen')
    await upload.part(1, 'part')
    ;(await bucket.ask('GET', '/unseen')).refused('NoSuchKey')
    ;(await upload.ask('DELETE')).succeeded(204)
    ;(await upload.ask('DELETE')).refused('NoSuchUpload')
    ;(await upload.complete([[1, md5('part').toString('hex')]])).refused('NoSuchUpload')
    ;(await bucket.ask('GET', '/unseen')).refused('NoSuchKey')
  })
  it('copies of ranges: strictly bytes=first-last within the source', async () => {
    await bucket.put('source', '0123456789')
    const upload = await bucket.newUpload('ranges')
    const copy = (range: string) =>
      upload.ask('PUT', '&partNumber=1', {
        headers: { 'x-obj-copy-source': `${bucket.name}/source`, 'x-obj-copy-source-range': range },
      })
    for (const range of ['bytes=0-10', 'bytes=5-', 'bytes=-5', '0-5', 'bytes=5-2', 'bytes=0-1,3-4']) {
      ;(await copy(range)).refused('InvalidArgument')
    }
    const copied = (await copy('bytes=9-9')).document('CopyPartResult').text('ETag')!
    ;(await upload.complete([[1, copied]])).succeeded(200)
    assert.equal(await bucket.read('ranges'), '9')
  })
  it('checksums of parts make the one of the whole, by the type that was chosen', async () => {
    const headers = { 'x-obj-checksum-algorithm': 'SHA256' }
    const upload = await bucket.newUpload('summed', headers)
    const sum = createHash('sha256').update('part').digest()
    const part = await upload.ask('PUT', '&partNumber=1', {
      body: 'part',
      headers: { 'x-obj-checksum-sha256': sum.toString('base64') },
    })
    const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.header('etag')}</ETag><ChecksumSHA256>${sum.toString('base64')}</ChecksumSHA256></Part></CompleteMultipartUpload>`
    const completed = (await upload.ask('POST', '', { body })).document('CompleteMultipartUploadResult')
    const composite = `${createHash('sha256').update(sum).digest('base64')}-1`
    assert.deepEqual([completed.text('ChecksumSHA256'), completed.text('ChecksumType')], [composite, 'COMPOSITE'])
    ;(
      await bucket.ask('POST', '/x?uploads', { headers: { ...headers, 'x-obj-checksum-type': 'FULL_OBJECT' } })
    ).refused('InvalidRequest')
  })
  it('checksums of every algorithm that has no CRC are composite', async () => {
    const hashes: Readonly<Record<string, (of: Buffer) => Promise<string> | string>> = {
      SHA512: (of) => createHash('sha512').update(of).digest('hex'),
      MD5: (of) => createHash('md5').update(of).digest('hex'),
      XXHASH64: (of) => xxhash64(of),
      XXHASH3: (of) => xxhash3(of),
      XXHASH128: (of) => xxhash128(of),
    }
    for (const [algorithm, hash] of Object.entries(hashes)) {
      const headers = { 'x-amz-checksum-algorithm': algorithm }
      const upload = await bucket.newUpload('composite', headers)
      const sum = Buffer.from(await hash(Buffer.from('part')), 'hex')
      const value = sum.toString('base64')
      const part = await upload.ask('PUT', '&partNumber=1', {
        body: 'part',
        headers: { [`x-amz-checksum-${algorithm.toLowerCase()}`]: value },
      })
      assert.equal(part.header(`x-amz-checksum-${algorithm.toLowerCase()}`), value)
      assert.equal((await upload.ask('GET', '')).document('ListPartsResult').text(`Part/Checksum${algorithm}`), value)
      const listed = `<ETag>${part.header('etag')}</ETag><Checksum${algorithm}>${value}</Checksum${algorithm}>`
      const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>${listed}</Part></CompleteMultipartUpload>`
      const completed = (await upload.ask('POST', '', { body })).document('CompleteMultipartUploadResult')
      const composite = `${Buffer.from(await hash(sum), 'hex').toString('base64')}-1`
      assert.deepEqual(
        [completed.text(`Checksum${algorithm}`), completed.text('ChecksumType')],
        [composite, 'COMPOSITE'],
      )
      const mode = { 'x-amz-checksum-mode': 'ENABLED' }
      const got = await bucket.ask('HEAD', '/composite', { headers: mode })
      assert.equal(got.header(`x-amz-checksum-${algorithm.toLowerCase()}`), composite)
    }
  })
})
