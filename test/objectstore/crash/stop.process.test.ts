import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { Load } from '../../../scripts/soak/objectstore/load.ts'
import { Faults } from '../../support/faults.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import { eventually } from '../../support/waiting.ts'
import { seedOf } from '../../support/seed.ts'

const LARGE = Buffer.alloc(700_000, 'large')
const SMALL = 2000
const WAITING = 20
const CORS =
  '<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>'

const faults = new Faults()
const server = await ObjectStoreServer.start({ env: { ...faults.env, OBJSTORE_SEGMENT_BYTES: String(1 << 20) } })
after(() => server.kill())

/** Bytes of the log that are needed, counting all applied frames, also those that are not durable yet. */
async function neededBytes(): Promise<number> {
  const { text } = await server.request('GET', '/v1/metrics')
  return Number(/^objstore_live_bytes (\d+)$/m.exec(text)![1])
}

describe('SIGTERM under load', () => {
  it('answers who waits for the disk, and whose body is still arriving, then ends; what was answered is there after the next start, and nothing else', async (context) => {
    const seed = seedOf(context)
    const load = await Load.start(server, { seed })
    context.after(() => load.abandon())
    await load.untilWorked(150)
    await load.hold()
    const bucket = await server.newBucket()
    ;(await bucket.ask('PUT', '?cors', { body: CORS })).succeeded(200)
    const upload = await bucket.newUpload('parted', { 'x-obj-meta-a': 'b' })
    const part = await upload.part(1, LARGE)
    const slow = await server.connect()
    const half = LARGE.byteLength / 2
    slow.write(`PUT /${bucket.name}/slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${LARGE.byteLength}\r\n\r\n`)
    slow.write(LARGE.subarray(0, half))
    const before = await neededBytes()
    faults.set('fdatasync-slow', '500')
    const body = Buffer.alloc(SMALL)
    const puts = Array.from({ length: WAITING }, (_, i) => bucket.ask('PUT', `/waiting-${i}`, { body }))
    await eventually(async () => (await neededBytes()) >= before + WAITING * SMALL)
    load.resume()
    await load.untilAsked(10)
    server.signal('SIGTERM')
    const ended = server.ended()
    slow.write(LARGE.subarray(half))
    for (const put of puts) (await put).succeeded(200)
    ;(await slow.reply()).succeeded(200)
    await load.during(ended)
    faults.clear('fdatasync-slow')
    await load.hold()

    await server.startAgain()
    await load.check()
    const names = ['slow', ...Array.from({ length: WAITING }, (_, i) => `waiting-${i}`)]
    assert.deepEqual(await bucket.keys(), names.sort())
    assert.equal(await bucket.read('slow'), String(LARGE))
    assert.equal((await bucket.ask('GET', '?cors')).document('CORSConfiguration').text('CORSRule/AllowedOrigin'), '*')
    ;(await upload.complete([[1, part]])).succeeded(200)
    const parted = (await bucket.ask('GET', '/parted')).succeeded(200)
    assert(parted.bytes.equals(LARGE))
    assert.equal(parted.header('x-obj-meta-a'), 'b')
    await load.finish()
  })
})
