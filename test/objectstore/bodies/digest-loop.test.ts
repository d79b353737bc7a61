import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { MD5_LANES } from '../../../native-free-codecs/md5.ts'
import { SpscRing } from '../../../src/pipeline/spsc-ring.ts'
import { loadChecksums } from '../../../src/objectstore/bodies/checksum-algorithms.ts'
import { digestsOf } from '../../../src/objectstore/bodies/digest-loop.ts'
import { REQUEST_BYTES, writeRequest } from '../../../src/objectstore/bodies/digest-messages.ts'
import type { DigestAnswer, DigestRequest } from '../../../src/objectstore/bodies/digest-messages.ts'

const ARENA_BYTES = 1 << 16
const HEAD_CRC = 7
const BODIES = MD5_LANES + 2

const shared = new SharedArrayBuffer(ARENA_BYTES)
const arena = Buffer.from(shared)
for (let i = 0; i < ARENA_BYTES; i++) arena[i] = Math.imul(i, 0x9e37_79b1) >>> 24

const piece = fc.record({
  body: fc.nat({ max: BODIES - 1 }),
  offset: fc.nat({ max: 30_000 }),
  bytes: fc.nat({ max: 30_000 }),
})

function newLane(load?: typeof loadChecksums) {
  const ring = SpscRing.create(1 << 14)
  const answerAll = digestsOf(SpscRing.attach(ring.shared), shared, load)
  const answers: DigestAnswer[] = []
  return {
    answers,
    ask: (request: DigestRequest): void => {
      const at = ring.tryReserve(REQUEST_BYTES)
      assert(at >= 0)
      writeRequest(request, ring.bytes, at)
      ring.publish()
    },
    work: () => answerAll((answer) => answers.push(answer)),
  }
}

test('bodies whose bytes come in any order among each other have the digests of each, whatever waits at the same time', () => {
  const turns = fc.array(fc.array(piece, { maxLength: 2 * BODIES }), { maxLength: 4 })
  fc.assert(
    fc.property(turns, fc.nat({ max: BODIES - 1 }), (turns, dropped) => {
      const { ask, work, answers } = newLane()
      const bodies = Array.from({ length: BODIES }, (_, body): Buffer[] => {
        ask({ kind: 'begin', body, plan: { checksums: ['CRC32'], sha256: false } })
        return []
      })
      for (const turn of turns) {
        for (const { body, offset, bytes } of turn) {
          ask({ kind: 'update', body, offset, bytes, crc: HEAD_CRC })
          bodies[body]!.push(arena.subarray(offset, offset + bytes))
        }
        work()
      }
      for (const body of bodies.keys()) ask({ kind: body === dropped ? 'drop' : 'finish', body })
      work()
      for (const [body, pieces] of bodies.entries()) {
        const whole = Buffer.concat(pieces)
        const expected: DigestAnswer[] = pieces.map((each) => {
          return { kind: 'updated', body, payloadCrc: each.byteLength === 0 ? HEAD_CRC : crc32(each, HEAD_CRC) }
        })
        const crc = Buffer.alloc(4)
        crc.writeUInt32BE(crc32(whole))
        const checksums = [{ algorithm: 'CRC32' as const, value: crc.toString('base64') }]
        const digest = { bytes: whole.byteLength, md5: hash('md5', whole), checksums, sha256: null }
        if (body !== dropped) expected.push({ kind: 'finished', body, digest })
        assert.deepEqual(
          answers.filter((answer) => answer.body === body),
          expected,
        )
      }
    }),
  )
})

test('a body with much that waits lets others have their turns', () => {
  const { ask, work, answers } = newLane()
  for (const body of [1, 2]) {
    ask({ kind: 'begin', body, plan: { checksums: [], sha256: false } })
    for (let i = 0; i < 3; i++) ask({ kind: 'update', body, offset: 0, bytes: 100, crc: HEAD_CRC })
  }
  work()
  assert.deepEqual(
    answers.map(({ body }) => body),
    [1, 2, 1, 2, 1, 2],
  )
})

test('a body whose checksum has to be loaded waits for that, and others with it', async () => {
  let isLoaded = false // so that loads by other tests of this process do not count
  const load = async (algorithms: Parameters<typeof loadChecksums>[0]): Promise<void> => {
    await loadChecksums(algorithms)
    isLoaded = true
  }
  const { ask, work, answers } = newLane((algorithms) => (isLoaded ? null : load(algorithms)))
  ask({ kind: 'begin', body: 1, plan: { checksums: ['XXHASH64', 'XXHASH3'], sha256: false } })
  ask({ kind: 'update', body: 1, offset: 0, bytes: 0, crc: HEAD_CRC })
  ask({ kind: 'begin', body: 2, plan: { checksums: [], sha256: false } })
  for (const body of [1, 2]) ask({ kind: 'finish', body })
  const loading = work()
  assert.notEqual(loading, null)
  assert.equal(answers.length, 0)
  await loading
  assert.equal(work(), null)
  const md5 = hash('md5', '')
  const checksums = [
    { algorithm: 'XXHASH64', value: '70bbN1HY6Zk=' },
    { algorithm: 'XXHASH3', value: 'LQaABTjTlMI=' },
  ]
  const of = (body: number) => answers.filter((answer) => answer.body === body)
  assert.deepEqual(of(1), [
    { kind: 'updated', body: 1, payloadCrc: HEAD_CRC },
    { kind: 'finished', body: 1, digest: { bytes: 0, md5, checksums, sha256: null } },
  ])
  assert.deepEqual(of(2), [{ kind: 'finished', body: 2, digest: { bytes: 0, md5, checksums: [], sha256: null } }])
})
