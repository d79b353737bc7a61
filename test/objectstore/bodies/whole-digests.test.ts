import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { loadChecksums } from '../../../src/objectstore/bodies/checksum-algorithms.ts'
import { digestOfWhole } from '../../../src/objectstore/bodies/body-digests.ts'
import type { BodyDigest, DigestPlan } from '../../../src/objectstore/bodies/body-digests.ts'
import { WholeDigests } from '../../../src/objectstore/bodies/whole-digests.ts'
import { CHECKSUM_ALGORITHMS } from '../../../src/objectstore/bodies/checksums.ts'

await loadChecksums(CHECKSUM_ALGORITHMS)

const plan = fc.record({ checksums: fc.subarray([...CHECKSUM_ALGORITHMS]), sha256: fc.boolean() })
const body = fc.uint8Array({ maxLength: 300, size: 'max' })

const digestOf = (digests: WholeDigests, plan: DigestPlan, body: Uint8Array): Promise<BodyDigest> =>
  new Promise((resolve, reject) => digests.of(plan, body, resolve, reject))

test('bodies of one turn, however many, have the digests that each has alone', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.record({ plan, body }), { minLength: 1, maxLength: 20 }), async (asked) => {
      const runs: (() => void)[] = []
      const digests = new WholeDigests((run) => runs.push(run))
      const together = asked.map((each) => digestOf(digests, each.plan, each.body))
      assert.equal(runs.length, 1)
      runs[0]!()
      assert.deepEqual(
        await Promise.all(together),
        asked.map((each) => digestOfWhole(each.plan, each.body)),
      )
    }),
    { numRuns: 50 },
  )
})

test('a body of the next turn waits for its own', async () => {
  const runs: (() => void)[] = []
  const digests = new WholeDigests((run) => runs.push(run))
  const plan = { checksums: [], sha256: false }
  const first = digestOf(digests, plan, Buffer.from('a'))
  runs[0]!()
  const second = digestOf(digests, plan, Buffer.from('b'))
  assert.equal(runs.length, 2)
  runs[1]!()
  assert.deepEqual(
    [(await first).md5, (await second).md5],
    ['0cc175b9c0f1b6a831c399e269772661', '92eb5ffee6ae2fec3ad71c777531578f'],
  )
})
