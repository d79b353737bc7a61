/**
 * The SDK of JavaScript as it is today, with its helpers for large uploads, pre-signed URLs and browsers' forms. It is no dependency of this
 * repository: npm installs it into a temporary directory.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import type { AgentOptions } from 'node:http'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { MissingError, runChecks } from './client.ts'
import type { Client, Result, Target } from './client.ts'

const PACKAGES = [
  '@aws-sdk/client-s3',
  '@aws-sdk/lib-storage',
  '@aws-sdk/s3-presigned-post',
  '@aws-sdk/s3-request-presigner',
]
const BUCKET = 'aws-sdk'
const MIB = 1 << 20

/** `require`, from where the packages are. */
type Load = (name: string) => unknown
type Fields = Readonly<Record<string, unknown>>
type Command = object
type Reply = Fields & { readonly Body?: { transformToByteArray(): Promise<Uint8Array> } }

/** What is used here of the packages; commands are made by their names. */
interface Sdk {
  readonly S3Client: new (options: object) => S3Client
  readonly [command: `${string}Command`]: new (input: Fields) => Command
}
interface S3Client {
  send(command: Command): Promise<Reply>
  destroy(): void
}
interface Storage {
  readonly Upload: new (options: object) => { done(): Promise<Reply> }
}
interface Presigner {
  readonly getSignedUrl: (client: S3Client, command: Command, options: object) => Promise<string>
}
interface PresignedPost {
  readonly createPresignedPost: (
    client: S3Client,
    options: object,
  ) => Promise<{ readonly url: string; readonly fields: Readonly<Record<string, string>> }>
}

/** @param directory empty, for the packages */
export function awsSdk(directory: string): Client {
  let load: Load | null = null
  return {
    name: '@aws-sdk/client-s3',
    needs: 'nothing',
    version() {
      load = install(directory)
      return (load('@aws-sdk/client-s3/package.json') as { version: string }).version // as npm wants it
    },
    run: (target) => run(target, load!), // set by `version`, which is asked first
  }
}

function install(directory: string): Load {
  writeFileSync(`${directory}/package.json`, '{"private":true}')
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', ...PACKAGES]
  const { status, error, stderr } = spawnSync('npm', args, { cwd: directory, encoding: 'utf8' })
  if (status !== 0) throw new MissingError(`npm could not install it: ${error?.message ?? stderr.trim().slice(-300)}`)
  return createRequire(`${directory}/package.json`)
}

function run(target: Target, load: Load): AsyncIterable<Result> {
  const sdk = load('@aws-sdk/client-s3') as Sdk // typed above
  const { Upload } = load('@aws-sdk/lib-storage') as Storage // likewise
  const { getSignedUrl } = load('@aws-sdk/s3-request-presigner') as Presigner // likewise
  const { createPresignedPost } = load('@aws-sdk/s3-presigned-post') as PresignedPost // likewise
  const { endpoint, region, keyId, secret } = target
  const clientWith = (options: object): S3Client =>
    new sdk.S3Client({
      endpoint,
      region,
      forcePathStyle: true,
      credentials: { accessKeyId: keyId, secretAccessKey: secret },
      maxAttempts: 1,
      ...options,
    })
  const client = clientWith({})
  const command = (name: string, input: Fields): Command =>
    new sdk[`${name}Command`]!({ ...(name !== 'ListBuckets' && { Bucket: BUCKET }), ...input })
  const send = (name: string, input: Fields = {}): Promise<Reply> => client.send(command(name, input))
  const read = async (Key: string, input: Fields = {}): Promise<Buffer> =>
    Buffer.from(await (await send('GetObject', { Key, ...input })).Body!.transformToByteArray())
  const text = async (key: string): Promise<string> => (await read(key)).toString()
  const refused = async (name: string, status: number, call: Promise<unknown>): Promise<void> => {
    const isAsExpected = (error: unknown): boolean => {
      const { name: actual, $metadata } = error as { name?: string; $metadata?: { httpStatusCode?: number } } // of the SDK
      assert.deepEqual([actual, $metadata?.httpStatusCode], [name, status])
      return true
    }
    await assert.rejects(call, isAsExpected)
  }

  return runChecks({
    async buckets() {
      await send('CreateBucket')
      await refused('BucketAlreadyOwnedByYou', 409, send('CreateBucket'))
      const { Buckets } = await send('ListBuckets')
      assert((Buckets as Fields[]).some(({ Name }) => Name === BUCKET))
      await refused('NotFound', 404, send('HeadBucket', { Bucket: 'absent-bucket' }))
      await refused('NoSuchBucket', 404, send('ListObjectsV2', { Bucket: 'absent-bucket' }))
    },
    async 'put, get, head with the default checksum'() {
      const Body = randomBytes(100_000)
      const written = await send('PutObject', {
        Key: 'a b/ü+',
        Body,
        ContentType: 'x/y',
        Metadata: { colour: 'green' },
      })
      assert.equal(typeof written['ChecksumCRC32'], 'string')
      assert.deepEqual(await read('a b/ü+'), Body)
      const head = await send('HeadObject', { Key: 'a b/ü+', ChecksumMode: 'ENABLED' })
      assert.deepEqual(
        [head['ContentLength'], head['ContentType'], head['Metadata'], head['ChecksumCRC32'], head['ChecksumType']],
        [Body.length, 'x/y', { colour: 'green' }, written['ChecksumCRC32'], 'FULL_OBJECT'],
      )
      await refused('NoSuchKey', 404, read('absent'))
    },
    async 'a stream, whose checksum comes in the trailer'() {
      const Body = randomBytes(3 * MIB)
      const pieces = Array.from({ length: 48 }, (_, i) => Body.subarray(i << 16, (i + 1) << 16))
      await send('PutObject', { Key: 'stream', Body: Readable.from(pieces), ContentLength: Body.length })
      assert((await read('stream')).equals(Body), 'what came back is not what was sent')
      const head = await send('HeadObject', { Key: 'stream' })
      assert.equal(head['ContentEncoding'], undefined, 'the framing is not part of the object')
    },
    async 'checksums of every algorithm'() {
      for (const ChecksumAlgorithm of ['CRC32', 'CRC32C', 'SHA1', 'SHA256']) {
        const written = await send('PutObject', { Key: 'sum', Body: ChecksumAlgorithm, ChecksumAlgorithm })
        assert.equal(typeof written[`Checksum${ChecksumAlgorithm}`], 'string')
        assert.equal(await text('sum'), ChecksumAlgorithm)
      }
      const wrong = { Key: 'sum', Body: 'x', ChecksumCRC32: 'AAAAAA==' }
      await refused('BadDigest', 400, send('PutObject', wrong))
    },
    async 'lib-storage: 20 MiB in parts from a stream'() {
      const Body = randomBytes(20 * MIB + 5)
      const pieces = Array.from({ length: 321 }, (_, i) => Body.subarray(i << 16, (i + 1) << 16))
      const params = { Bucket: BUCKET, Key: 'big', Body: Readable.from(pieces), Metadata: { is: 'big' } }
      await new Upload({ client, partSize: 8 * MIB, params }).done()
      assert((await read('big')).equals(Body), 'what came back is not what was sent')
      const head = await send('HeadObject', { Key: 'big', PartNumber: 1 })
      assert.deepEqual([head['PartsCount'], head['ContentLength'], head['Metadata']], [3, 8 * MIB, { is: 'big' }])
      const range = await send('GetObject', { Key: 'big', Range: `bytes=${8 * MIB - 2}-${8 * MIB + 1}` })
      assert.deepEqual(
        Buffer.from(await range.Body!.transformToByteArray()),
        Body.subarray(8 * MIB - 2, 8 * MIB + 2),
        'across two parts',
      )
      assert.equal(range['ContentRange'], `bytes ${8 * MIB - 2}-${8 * MIB + 1}/${Body.length}`)
    },
    async 'multipart with whole-object checksums'() {
      const name = { Key: 'sums', ChecksumType: 'FULL_OBJECT', ChecksumAlgorithm: 'CRC32' }
      const { UploadId } = await send('CreateMultipartUpload', name)
      const Body = Buffer.alloc(5 * MIB, 'x')
      const one = await send('UploadPart', { Key: 'sums', UploadId, PartNumber: 1, Body })
      const two = await send('UploadPart', { Key: 'sums', UploadId, PartNumber: 2, Body: 'end' })
      const Parts = [one, two].map(({ ETag, ChecksumCRC32 }, i) => ({ ETag, ChecksumCRC32, PartNumber: i + 1 }))
      const end = { Key: 'sums', UploadId, MultipartUpload: { Parts }, ChecksumType: 'FULL_OBJECT' }
      const done = await send('CompleteMultipartUpload', end)
      assert.equal(done['ChecksumType'], 'FULL_OBJECT')
      await send('CompleteMultipartUpload', end)
      assert((await read('sums', { ChecksumMode: 'ENABLED' })).equals(Buffer.concat([Body, Buffer.from('end')])))
      const aborted = await send('CreateMultipartUpload', { Key: 'aborted' })
      await send('AbortMultipartUpload', { Key: 'aborted', UploadId: aborted['UploadId'] })
      await refused('NoSuchUpload', 404, send('ListParts', { Key: 'aborted', UploadId: aborted['UploadId'] }))
    },
    async 'list in pages'() {
      for (const name of ['l/1', 'l/2/3', 'l/2/4', 'l/5']) await send('PutObject', { Key: name, Body: name })
      const first = await send('ListObjectsV2', { Prefix: 'l/', Delimiter: '/', MaxKeys: 2 })
      const second = await send('ListObjectsV2', {
        Prefix: 'l/',
        Delimiter: '/',
        ContinuationToken: first['NextContinuationToken'],
      })
      assert.deepEqual(
        [keysOf(first), first['CommonPrefixes'], first['IsTruncated'], keysOf(second)],
        [['l/1'], [{ Prefix: 'l/2/' }], true, ['l/5']],
      )
    },
    async 'pre-signed URLs'() {
      const about = { Key: 'url +ü', Metadata: { by: 'url' }, Tagging: 'a=b' }
      const put = await getSignedUrl(client, command('PutObject', about), { expiresIn: 60 })
      assert.equal((await fetch(put, { method: 'PUT', body: 'by url' })).status, 200)
      const head = await send('HeadObject', { Key: 'url +ü' })
      assert.deepEqual([head['Metadata'], head['TagCount']], [{ by: 'url' }, 1], 'what the URL brings in its query')
      const input = { Key: 'url +ü', ResponseContentType: 'x/other' }
      const got = await fetch(await getSignedUrl(client, command('GetObject', input), { expiresIn: 60 }))
      assert.deepEqual([got.status, got.headers.get('content-type'), await got.text()], [200, 'x/other', 'by url'])
    },
    async "a browser's form"() {
      const { url, fields } = await createPresignedPost(client, {
        Bucket: BUCKET,
        Key: 'posted/${filename}',
        Fields: { 'Content-Type': 'text/x-form', success_action_status: '201' },
        Conditions: [['content-length-range', 1, 100]],
        Expires: 60,
      })
      const post = (content: string): Promise<Response> => {
        const form = new FormData()
        for (const [name, value] of Object.entries(fields)) form.append(name, value)
        form.append('file', new Blob([content]), 'file.txt')
        return fetch(url, { method: 'POST', body: form })
      }
      const posted = await post('from a browser')
      const answer = await posted.text()
      assert(posted.status === 201 && answer.includes('<Key>posted/file.txt</Key>'), answer)
      const got = await send('HeadObject', { Key: 'posted/file.txt' })
      assert.deepEqual([got['ContentLength'], got['ContentType']], [14, 'text/x-form'])
      assert.equal((await post('x'.repeat(101))).status, 400)
    },
    async 'tags, CORS, policy'() {
      const TagSet = [{ Key: 'a', Value: 'b' }]
      await send('PutObjectTagging', { Key: 'stream', Tagging: { TagSet } })
      assert.deepEqual((await send('GetObjectTagging', { Key: 'stream' }))['TagSet'], TagSet)
      await send('DeleteObjectTagging', { Key: 'stream' })
      const CORSRules = [{ AllowedMethods: ['GET'], AllowedOrigins: ['*'], MaxAgeSeconds: 5 }]
      await send('PutBucketCors', { CORSConfiguration: { CORSRules } })
      assert.deepEqual((await send('GetBucketCors'))['CORSRules'], CORSRules)
      const statement = {
        Effect: 'Allow',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: `arn:aws:s3:::${BUCKET}/l/*`,
      }
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [statement] })
      await send('PutBucketPolicy', { Policy })
      assert.equal((await send('GetBucketPolicy'))['Policy'], Policy)
      const open = await fetch(`${endpoint}/${BUCKET}/l/1`, { headers: { origin: 'https://any.example' } })
      assert.deepEqual([await open.text(), open.headers.get('access-control-allow-origin')], ['l/1', '*'])
      await send('DeleteBucketPolicy')
      await send('DeleteBucketCors')
      await refused('NoSuchBucketPolicy', 404, send('GetBucketPolicy'))
    },
    async copy() {
      await send('CopyObject', { Key: 'copy', CopySource: `${BUCKET}/${encodeURIComponent('a b/ü+')}` })
      const head = await send('HeadObject', { Key: 'copy' })
      assert.deepEqual([head['ContentType'], head['Metadata']], ['x/y', { colour: 'green' }])
    },
    async 'conditional reads and writes'() {
      const { ETag } = await send('PutObject', { Key: 'if', Body: '1', IfNoneMatch: '*' })
      await refused('PreconditionFailed', 412, send('PutObject', { Key: 'if', Body: '2', IfNoneMatch: '*' }))
      await send('PutObject', { Key: 'if', Body: '2', IfMatch: ETag })
      await refused('PreconditionFailed', 412, send('PutObject', { Key: 'if', Body: '3', IfMatch: ETag }))
      assert.equal(await text('if'), '2')
    },
    async 'virtual-host style, where the host names the bucket'() {
      const hosted = clientWith({
        forcePathStyle: false,
        endpoint: endpoint.replace('127.0.0.1', 'localhost'),
        requestHandler: { httpAgent: new Agent({ lookup: toLoopback }) },
      })
      try {
        const { Body } = await hosted.send(command('GetObject', { Key: 'l/1' }))
        assert.equal(Buffer.from(await Body!.transformToByteArray()).toString(), 'l/1')
      } finally {
        hosted.destroy()
      }
    },
    async 'what is outside the profile is refused'() {
      await refused('NotImplemented', 501, send('GetBucketVersioning'))
      await refused('NotImplemented', 501, send('PutObject', { Key: 'acl', Body: '', ACL: 'public-read' }))
    },
    async 'delete, delete many, delete the bucket'() {
      await refused('BucketNotEmpty', 409, send('DeleteBucket'))
      await send('DeleteObject', { Key: 'if' })
      const Objects = keysOf(await send('ListObjectsV2')).map((Key) => ({ Key }))
      const { Deleted, Errors } = await send('DeleteObjects', { Delete: { Objects } })
      assert.deepEqual([(Deleted as unknown[]).length, Errors], [Objects.length, undefined])
      await send('DeleteBucket')
      client.destroy()
    },
  })
}

/** `bucket.localhost` is known to browsers, not to every resolver. */
const toLoopback: NonNullable<AgentOptions['lookup']> = (_name, _options, found) =>
  found(null, [{ address: '127.0.0.1', family: 4 }])

const keysOf = ({ Contents = [] }: Reply): string[] => (Contents as { Key: string }[]).map(({ Key }) => Key) // as S3 has it
