/** What an operator learns when an object store lost files while it was stopped. */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import type { TestBucket } from '../../support/objectstore.ts'
import { eventually } from '../../support/waiting.ts'

const SEGMENT_BYTES = 1 << 20

interface Started {
  readonly server: ObjectStoreServer
  readonly bucket: TestBucket
  /** Directories of the segments, oldest first. */
  readonly directories: () => readonly string[]
}

async function start(context: TestContext): Promise<Started> {
  const server = await ObjectStoreServer.start({ env: { OBJSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) } })
  context.after(() => server.kill())
  const segments = `${server.dataDirectory}/segments`
  const directories = (): readonly string[] => {
    const names = readdirSync(segments).filter((name) => /^[0-9a-f]{16}$/.test(name))
    return names.sort().map((name) => `${segments}/${name}`)
  }
  return { server, bucket: await server.newBucket(), directories }
}

/** The unacknowledged reason for which the store is degraded; null: it is not. Asserts that the store answers. */
async function degradedBy(server: ObjectStoreServer): Promise<string | null> {
  const health = await server.request('GET', '/health')
  assert.deepEqual([health.status, health.text], [200, '"Healthy"\n'])
  const isDegraded = (await server.request('GET', '/readyz')).succeeded(200).text.includes('"status":"degraded"')
  const reason = health.header('x-trilog-degraded')
  assert.equal(isDegraded, reason !== null)
  const { text } = await server.request('GET', '/v1/metrics')
  assert(text.includes(`\nobjstore_degraded ${isDegraded ? 1 : 0}\n`))
  return reason
}

describe('an object store that lost something while it was stopped', () => {
  it('says so when its last changes are damaged, until an operator has acknowledged that', async (context) => {
    const { server, bucket, directories } = await start(context)
    await bucket.put('first', 'first')
    await bucket.put('last', 'acknowledged and lost')
    await server.stop()
    const path = `${directories().at(-1)!}/records.log`
    const content = readFileSync(path)
    content[content.indexOf('acknowledged and lost')]! ^= 1
    writeFileSync(path, content)
    await server.startAgain()
    assert.equal((await bucket.ask('GET', '/last')).status, 404)
    assert.equal(await bucket.read('first'), 'first')
    const [id] = /inc-[0-9a-f]+/.exec((await degradedBy(server))!)!
    await bucket.put('other', 'other')
    await server.restart()
    assert((await degradedBy(server))!.includes(id), 'a restart does not make it good')
    writeFileSync(`${server.dataDirectory}/acknowledged-incidents`, `${id}\n`)
    server.signal('SIGHUP')
    const isWell = async (): Promise<boolean> =>
      (await server.request('GET', '/health')).header('x-trilog-degraded') === null
    await eventually(isWell)
    await server.logged(/incidents were acknowledged/)
    await server.restart()
    assert.equal(await degradedBy(server), null)
  })

  for (const [which, number] of [
    ['its oldest segment', 0],
    ['a segment in the middle', 1],
  ] as const) {
    it(`says so when the directory of ${which} is gone; what was in there is damaged, not unknown`, async (context) => {
      const { server, bucket, directories } = await start(context)
      const large = Buffer.alloc(400_000, 'large')
      // A checkpoint covers the changes that will be lost. Names of checkpoints and segments have their position, in hexadecimal digits.
      const isKnown = (): boolean => {
        const behind = directories()[number + 1]?.split('/').at(-1)
        const checkpoints = readdirSync(server.dataDirectory).map(
          (name) => /^checkpoint-([0-9a-f]+)\.bin$/.exec(name)?.[1],
        )
        return behind !== undefined && checkpoints.some((position) => position !== undefined && position >= behind)
      }
      let count = 0
      for (; count < 12 || !isKnown(); count++) await bucket.put(`large-${count}`, large)
      const lostDirectory = directories()[number]!
      await server.stop()
      rmSync(lostDirectory, { recursive: true })
      await server.startAgain()
      assert.match((await degradedBy(server))!, /are missing/)
      const statuses = await Promise.all(
        Array.from({ length: count }, async (_, n) => {
          const reply = await bucket.ask('GET', `/large-${n}`)
          if (reply.status === 200) assert(reply.bytes.equals(large))
          else assert.deepEqual([reply.status, reply.header('x-obj-error-retryable')], [500, 'false'])
          return reply.status
        }),
      )
      const lost = statuses.indexOf(500)
      assert(lost >= 0 && statuses.includes(200), String(statuses))
      await bucket.put(`large-${lost}`, 'again')
      assert.equal(await bucket.read(`large-${lost}`), 'again')
    })
  }
})
