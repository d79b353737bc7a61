import assert from 'node:assert/strict'
import { test } from 'node:test'
import { activeDeliveriesOf, rememberClaim } from '../../../src/broker/state/claim-ids.ts'
import type { ClaimIds } from '../../../src/broker/state/claim-ids.ts'
import { GroupState } from '../../../src/broker/state/group.ts'

const CLAIMS = 20_000
const LONG_MS = 1_000_000

test('a claim is known as long as it lives, however many come after it, and of the dead hardly any', () => {
  const queue = GroupState.create()
  const ids: ClaimIds = new Map()
  const claim = (number: number, leaseMs: number): void => {
    const runs = [{ offset: number, count: 1, attempt: 1 }]
    rememberClaim(ids, queue, `claim-${number}`, { claimNumber: number, runs }, number)
    queue.applyClaim(number, number, number + leaseMs, runs)
  }
  const long = [0, 1, 2, 50, 15_000]
  for (let number = 0; number < CLAIMS; number += 1) claim(number, long.includes(number) ? LONG_MS : 10)
  for (const number of long) {
    const known = ids.get(`claim-${number}`)
    assert.ok(known, `claim ${number} lives and is forgotten`)
    assert.deepEqual(
      Array.from(activeDeliveriesOf(queue, known, CLAIMS), ({ offset }) => offset),
      [number],
    )
  }
  assert.ok(ids.size < 100, `${ids.size} are remembered, and 15 live`)
})
