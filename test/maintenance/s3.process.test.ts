/** Backups in a bucket of trilog's own object store. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { temporaryDirectory } from '../support/directories.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import { trilog, trilogJson } from '../support/trilog.ts'
import type { BackupAnswer } from '../support/trilog.ts'

const JSON_BODY = { 'content-type': 'application/json' }
const KEY = {
  access_key_id: 'backup',
  secret_access_key: 'a secret of the backup',
  principal: 'backup',
  permissions: ['read', 'write', 'list', 'delete', 'admin'],
}
const AWS = {
  AWS_ACCESS_KEY_ID: KEY.access_key_id,
  AWS_SECRET_ACCESS_KEY: KEY.secret_access_key,
  AWS_REGION: 'us-east-1',
}

describe('a backup in a bucket', () => {
  it('of trilog itself is incremental, is checked, finds what is damaged, and is restored', async () => {
    const bucketStore = await ObjectStoreServer.start({ keys: [KEY] })
    const endpoint = ['--endpoint-url', bucketStore.url]
    const { S3Client, CreateBucketCommand, DeleteObjectCommand, ListObjectsV2Command, PutObjectCommand } =
      await import('@aws-sdk/client-s3')
    const client = new S3Client({
      endpoint: bucketStore.url,
      region: AWS.AWS_REGION,
      forcePathStyle: true,
      credentials: { accessKeyId: KEY.access_key_id, secretAccessKey: KEY.secret_access_key },
    })
    await client.send(new CreateBucketCommand({ Bucket: 'backups' }))

    const store = await ObjectStoreServer.start({ env: { OBJSTORE_SEGMENT_BYTES: String(12 << 20) } })
    const bucket = await store.newBucket()
    const bodies = new Map(Array.from({ length: 24 }, (_, n) => [`key-${n}`, Buffer.alloc(1 << 20, `body ${n} `)]))
    for (const [key, body] of bodies) await bucket.put(key, body)
    const helped = { url: 'http://example.com', latency: 2, activation_id: 'a-1' }
    await store.request('POST', '/v1/endpoint/a-1', { body: JSON.stringify(helped), headers: JSON_BODY })
    const to = 's3://backups/stores/one/'
    const args = ['backup', '--data-dir', store.dataDirectory, '--to', to, ...endpoint]
    const first = await trilogJson<BackupAnswer>(args, AWS)
    assert(first.copied_bytes > 24 << 20)
    await bucket.put('last', 'one more')
    const second = await trilogJson<BackupAnswer>(args, AWS)
    assert(second.reused_files >= 1 && second.copied_bytes < first.copied_bytes)
    await trilogJson(['backup', '--check', '--to', to, ...endpoint], AWS)

    const directory = `${temporaryDirectory()}/restored`
    await trilogJson(['restore', '--from', to, '--data-dir', directory, ...endpoint], AWS)
    const restored = await ObjectStoreServer.start({ env: { OBJSTORE_DATA_DIR: directory } })
    for (const [key, body] of bodies) {
      assert((await restored.request('GET', `/bucket-0/${key}`)).bytes.equals(body), key)
    }
    assert.equal((await restored.request('GET', '/bucket-0/last')).text, 'one more')
    assert.deepEqual(JSON.parse((await restored.request('GET', '/v1/endpoint/a-1/recent')).text), helped)

    const { Contents = [] } = await client.send(
      new ListObjectsV2Command({ Bucket: 'backups', Prefix: 'stores/one/logs/' }),
    )
    const [one, other] = Contents.map(({ Key }) => Key!)
    await client.send(new PutObjectCommand({ Bucket: 'backups', Key: one!, Body: 'something else' }))
    await client.send(new DeleteObjectCommand({ Bucket: 'backups', Key: other! }))
    const { code, stdout } = await trilog(['restore', '--check', '--from', to, ...endpoint, '--output', 'json'], AWS)
    assert.equal(code, 1)
    const { whole, snapshots } = JSON.parse(stdout) as {
      whole: boolean
      snapshots: readonly { problems: readonly string[] }[]
    }
    assert(!whole)
    const problems = snapshots.flatMap((snapshot) => snapshot.problems)
    for (const key of [one!, other!])
      assert(
        problems.some((problem) => problem.includes(key.slice('stores/one/'.length))),
        key,
      )

    const both = await Promise.all([trilog(args, AWS), trilog(args, AWS)])
    assert(
      both.some((ended) => ended.code === 0),
      both[0].stderr,
    )
    for (const { code: ended, stderr } of both) if (ended !== 0) assert.match(stderr, /backup_beaten/)

    const refused = await trilog(
      ['backup', '--data-dir', store.dataDirectory, '--to', 's3://backups/', ...endpoint],
      AWS,
    )
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /backup_place_taken/)
    const wrong = await trilog(args, { ...AWS, AWS_SECRET_ACCESS_KEY: 'wrong' })
    assert.equal(wrong.code, 1)
    assert.match(wrong.stderr, /SignatureDoesNotMatch/)
    assert.doesNotMatch(wrong.stderr, /a secret of the backup|wrong/)
    client.destroy()
    await Promise.all([bucketStore.stop(), store.stop(), restored.stop()])
  })
})
