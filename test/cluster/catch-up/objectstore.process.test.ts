/** An object store that was alone gets a second node, which copies its log and takes over the lead on request. On a real NATS server. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { describe, it } from 'node:test'
import { TestCluster, leads, waitUntilCaughtUp } from '../../support/cluster.ts'
import { natsOrSkip } from '../../support/nats-server.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import { eventually } from '../../support/waiting.ts'

const SEGMENT_BYTES = 1 << 20
const LARGE = Buffer.alloc(700_000, 'large')
const PART = Buffer.alloc(100_000, 'part')

const { name, skip } = natsOrSkip('an object store that was alone, and its second node')

describe(name, { skip }, () => {
  const small = new TestCluster<ObjectStoreServer>({ servers: 1 })
  const settings = { OBJSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) }
  const nodeOf = (id: string): Record<string, string> => ({ ...small.nodeOf(id), ...settings })
  const firstSegment = ({ dataDirectory }: ObjectStoreServer): number =>
    Math.min(...readdirSync(`${dataDirectory}/segments`).map((base) => Number.parseInt(base, 16)))
  const ask = async (node: ObjectStoreServer, method: string, target: string, body?: Uint8Array): Promise<string> => {
    const reply = await node.request(method, target, body && { body })
    assert.ok(reply.status < 300, `${method} ${target}: ${reply.status} ${reply.text}`)
    return reply.text
  }

  it('copies the log, of which the beginning is gone, follows, and leads when it is asked to', async () => {
    const first = await small.started(ObjectStoreServer.start({ env: settings }))
    await ask(first, 'PUT', '/photos')
    await ask(first, 'PUT', '/photos/large', LARGE)
    const id = /<UploadId>([^<]+)</.exec(await ask(first, 'POST', '/photos/parted?uploads'))![1]!
    await ask(first, 'PUT', `/photos/parted?uploadId=${id}&partNumber=1`, PART)
    await eventually(async () => {
      for (let n = 0; n < 10; n += 1) await ask(first, 'PUT', '/photos/litter', Buffer.alloc(400_000, String(n)))
      return firstSegment(first) > 0
    })
    await first.stop()

    await first.startAgain(nodeOf('a'))
    await eventually(() => leads(first))
    await ask(first, 'PUT', '/photos/small', Buffer.from('in the stream'))
    const second = await small.started(ObjectStoreServer.start({ env: nodeOf('b') }))
    await second.logged(/"msg":"the log of another node was copied"/)
    await waitUntilCaughtUp(second, 'b')
    assert.equal((await second.request('GET', '/photos/large')).status, 503)

    first.signal('SIGUSR2')
    await eventually(() => leads(second))
    await first.kill()
    assert.ok((await second.request('GET', '/photos/large')).bytes.equals(LARGE))
    assert.equal(await ask(second, 'GET', '/photos/small'), 'in the stream')
    const { headers } = await second.request('PUT', `/photos/parted?uploadId=${id}&partNumber=2`, { body: PART })
    assert.ok(headers.get('etag') !== null)
    const parts = /<Part>.*<\/Part>/s.exec(await ask(second, 'GET', `/photos/parted?uploadId=${id}`))![0]
    assert.equal(parts.split('<PartNumber>').length - 1, 2)
  })
})
