import assert from 'node:assert/strict'
import { closeSync, globSync, openSync, readFileSync, writeSync } from 'node:fs'
import { request } from 'node:http'
import { after, describe, it } from 'node:test'
import { Random } from '../../../bench/load/random.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import { testSeed } from '../../support/seed.ts'

/** Without a read cache, which would still have the objects that were just stored. */
const server = await ObjectStoreServer.start({ env: { OBJSTORE_READ_CACHE_BYTES: '0' } })
after(() => server.kill())

const random = new Random(testSeed())
/** Random bytes, so that no piece occurs twice. */
const BYTES = Buffer.from(Uint32Array.from({ length: 7_000_000 / 4 }, () => random.uint32()).buffer)

/** Flips a bit of these bytes where they are on the disk. */
function flip(bytes: Buffer): void {
  for (const path of globSync(`${server.dataDirectory}/segments/*/records.log`)) {
    const content = readFileSync(path)
    const begin = content.indexOf(bytes)
    if (begin < 0) continue
    const at = begin + random.between(0, bytes.byteLength - 1)
    const file = openSync(path, 'r+')
    writeSync(file, Uint8Array.of(content[at]! ^ (1 << random.between(0, 7))), 0, 1, at)
    return closeSync(file)
  }
  assert.fail('the bytes are in no segment')
}

/** Receives a body, whole or not. */
function received(target: string): Promise<{ status: number; bytes: Buffer; isWhole: boolean }> {
  const { hostname, port } = new URL(server.url)
  return new Promise((resolve, reject) => {
    const asking = request({ hostname, port, path: target }, (message) => {
      const pieces: Buffer[] = []
      message.on('data', (piece: Buffer) => void pieces.push(piece))
      message.on('error', () => {}) // `complete` tells
      message.on('close', () => {
        resolve({ status: message.statusCode!, bytes: Buffer.concat(pieces), isWhole: message.complete })
      })
    })
    asking.once('error', reject).end()
  })
}

describe('a bit that flips in a stored body', () => {
  it('is an error for whoever reads it, never wrong bytes, and nothing to anybody else, also after a restart', async () => {
    const bucket = await server.newBucket()
    const small = BYTES.subarray(0, 3000)
    const large = BYTES.subarray(3000, 1_203_000)
    const parts = [BYTES.subarray(1_203_000, 6_500_000), BYTES.subarray(6_500_000, 6_700_000)] as const
    await bucket.put('small', small)
    await bucket.put('large', large)
    await bucket.put('whole', large)
    const upload = await bucket.newUpload('parted')
    const etags = [await upload.part(1, parts[0]), await upload.part(2, parts[1])] as const
    ;(
      await upload.complete([
        [1, etags[0]],
        [2, etags[1]],
      ])
    ).succeeded(200)
    await bucket.put('last', 'last')

    flip(small.subarray(1000, 2000))
    flip(large.subarray(700_000, 700_400)) // in the first of the two objects with these bytes
    flip(parts[1].subarray(1000, 2000))
    for (const isAgain of [false, true]) {
      const reply = await bucket.ask('GET', '/small')
      if (isAgain)
        assert.equal(reply.status, 404, 'what its frame said is not known any more, and there is an incident')
      else assert.deepEqual([reply.status, reply.header('x-obj-error-code')], [500, 'InternalError'])
      assert.equal(reply.bytes.includes(small.subarray(0, 100)), false)

      const { status, bytes, isWhole } = await received(`/${bucket.name}/large`)
      assert.deepEqual([status, isWhole], [200, false])
      assert(bytes.equals(large.subarray(0, bytes.byteLength)), 'what comes before it breaks off is right')
      assert(bytes.byteLength <= 700_000)
      const range = await bucket.ask('GET', '/large', { headers: { range: 'bytes=0-199999' } })
      assert(range.succeeded(206).bytes.equals(large.subarray(0, 200_000)))
      const damaged = await bucket.ask('GET', '/large', { headers: { range: 'bytes=699990-700500' } })
      assert.deepEqual([damaged.status, damaged.header('x-obj-error-code')], [500, 'InternalError'])
      assert.equal(damaged.header('x-obj-error-retryable'), 'false', 'asking again does not mend it')
      const parted = await received(`/${bucket.name}/parted`)
      assert.equal(parted.isWhole, false)
      assert(parted.bytes.equals(Buffer.concat(parts).subarray(0, parted.bytes.byteLength)))
      assert((await bucket.ask('GET', '/parted?partNumber=1')).succeeded(206).bytes.equals(parts[0]))
      const copy = await bucket.ask('PUT', '/copy', { headers: { 'x-obj-copy-source': `/${bucket.name}/large` } })
      assert.deepEqual([copy.status, copy.header('x-obj-error-code')], [500, 'InternalError'])

      assert((await bucket.ask('GET', '/whole')).succeeded(200).bytes.equals(large))
      assert.equal(await bucket.read('last'), 'last')
      await server.logged(/quarantine incident/)
      assert.equal((await bucket.ask('HEAD', '/large')).status, 200)
      await bucket.put('new')
      if (!isAgain) await server.restart()
    }
    await bucket.put('small', small)
    await bucket.put('large', large)
    assert((await bucket.ask('GET', '/small')).bytes.equals(small))
    assert((await bucket.ask('GET', '/large')).bytes.equals(large))
  })
})
