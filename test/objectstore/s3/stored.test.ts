/** Answers of the gateway while frames of other requests are lost: see G1 of the gateway. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { OPERATIONS } from '../../../src/objectstore/s3/operations-table.ts'
import { refuse } from '../../../src/objectstore/refusals.ts'
import { formBody } from '../../support/form-body.ts'
import { TestGateway, assertRefused, textOf, textsOf } from './support.ts'
import type { Asked, Reply } from './support.ts'

const CORS = `<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>`
const POLICY = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::bkt/*' }],
})
const TAGGING = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>'

const deletion = (...keys: readonly string[]): Asked => {
  const body = `<Delete>${keys.map((key) => `<Object><Key>${key}</Key></Object>`).join('')}</Delete>`
  return { body, headers: { 'content-md5': createHash('md5').update(body).digest('base64') } }
}

/** A gateway on a store that has lost frames of other requests. */
async function losing(): Promise<TestGateway> {
  const gateway = await TestGateway.start()
  gateway.store.settled = () => Promise.reject(refuse('InternalError', 'lost'))
  return gateway
}

describe('while frames of others are lost', () => {
  it('every change that is stored is answered as stored', async (context) => {
    const gateway = await losing()
    context.after(() => gateway.stop())
    const answered = new Set<string>()
    const change = async (method: string, target: string, asked: Asked = {}): Promise<Reply> => {
      const reply = await gateway.ask(method, target, asked)
      assert(reply.status < 300, `${method} ${target}: ${reply.status} ${reply.text}`)
      answered.add(reply.headers['x-obj-operation']!)
      return reply
    }
    await change('PUT', '/bkt')
    await change('PUT', '/bkt?cors', { body: CORS })
    await change('DELETE', '/bkt?cors')
    await change('PUT', '/bkt?policy', { body: POLICY })
    await change('DELETE', '/bkt?policy')
    await change('PUT', '/bkt/key', { body: 'hello' })
    const form = formBody('end', [
      ['key', 'form'],
      ['file', 'hello', 'name.txt'],
    ])
    await change('POST', '/bkt', { body: form, headers: { 'content-type': 'multipart/form-data; boundary=end' } })
    await change('PUT', '/bkt/copy', { headers: { 'x-obj-copy-source': '/bkt/key' } })
    await change('PUT', '/bkt/key?tagging', { body: TAGGING })
    await change('DELETE', '/bkt/key?tagging')
    const begin = async (): Promise<string> =>
      `/bkt/parted?uploadId=${textOf((await change('POST', '/bkt/parted?uploads')).text, 'UploadId')}`
    await change('DELETE', await begin())
    const upload = await begin()
    await change('PUT', `${upload}&partNumber=1`, { headers: { 'x-obj-copy-source': '/bkt/key' } })
    const { headers } = await change('PUT', `${upload}&partNumber=1`, { body: 'hello' })
    const listed = `<Part><PartNumber>1</PartNumber><ETag>${headers['etag']}</ETag></Part>`
    const completion = { body: `<CompleteMultipartUpload>${listed}</CompleteMultipartUpload>` }
    for (const _ of ['first', 'again']) await change('POST', upload, completion)
    await change('DELETE', '/bkt/key')
    const deleted = await change('POST', '/bkt?delete', deletion('copy', 'form', 'parted'))
    assert.deepEqual(textsOf(deleted.text, 'Key'), ['copy', 'form', 'parted'])
    await change('DELETE', '/bkt')
    const changes = OPERATIONS.filter(({ method }) => !['GET', 'HEAD', 'OPTIONS'].includes(method))
    assert.deepEqual([...answered].sort(), changes.map(({ name }) => name).sort())
  })

  it('a key that was refused for what is lost fails, and no other key of its request', async (context) => {
    const gateway = await losing()
    context.after(() => gateway.stop())
    await gateway.ask('PUT', '/bkt')
    const forbidden = { Effect: 'Deny', Principal: '*', Action: 's3:DeleteObject', Resource: 'arn:aws:s3:::bkt/no' }
    await gateway.ask('PUT', '/bkt?policy', { body: JSON.stringify({ Version: '2012-10-17', Statement: [forbidden] }) })
    const { status, text } = await gateway.ask('POST', '/bkt?delete', deletion('yes', 'no'))
    assert.equal(status, 200)
    assert.deepEqual([textsOf(text, 'Key'), textsOf(text, 'Code')], [['yes', 'no'], ['InternalError']])
  })

  it('what says what is there fails', async (context) => {
    const gateway = await losing()
    context.after(() => gateway.stop())
    await gateway.ask('PUT', '/bkt')
    assertRefused(await gateway.ask('HEAD', '/bkt'), 500, 'InternalError')
    assertRefused(await gateway.ask('GET', '/bkt?uploads'), 500, 'InternalError')
  })
})
