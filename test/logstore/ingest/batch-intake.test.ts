/** What the decode lane makes of one request, on a log in a simulated world. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FORMAT_JSON, SIGNAL_LOG, SOURCE_OTLP_HTTP } from '../../../src/logstore/batch-frame.ts'
import { SegmentIndexes } from '../../../src/logstore/index/segment-indexes.ts'
import { BatchIntake } from '../../../src/logstore/ingest/batch-intake.ts'
import { GatewayBudget } from '../../../src/logstore/ingest/gateway-budget.ts'
import {
  ACCEPTED,
  NOT_PREPARED,
  OUTCOME_HEAD_BYTES,
  REFUSED,
  readOutcomeHead,
} from '../../../src/logstore/ingest/messages.ts'
import { NO_SEGMENT, SeenRecords } from '../../../src/logstore/ingest/seen-records.ts'
import { parseTenantPolicy } from '../../../src/logstore/tenants/tenant-policy-file.ts'
import { SpscRing } from '../../../src/pipeline/spsc-ring.ts'
import { World, openWriter, replay } from '../../support/log-harness.ts'
import { logRecordOf } from '../../support/batch-payloads.ts'

const RECORDS = 2000
const FRAMES = 4
const TENANT = {
  id: 'acme',
  credentials: [{ token_sha256: '0'.repeat(64), datasets: ['*'] }],
  limits: { records: null, bytes: null },
  max_records_per_batch: RECORDS,
}

const bodyOf = (batch: number): Buffer => {
  const logRecords = Array.from({ length: RECORDS }, (_, i) =>
    logRecordOf({ time: BigInt(1 + batch * RECORDS + i), trace: null, text: `${batch} ${i}`, dataset: 'cart' }),
  )
  const attributes = [{ key: 'tenant_id', value: { stringValue: 'acme' } }]
  return Buffer.from(JSON.stringify({ resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords }] }] }))
}

describe('a batch of several frames', () => {
  it('is stored whole or refused whole by a disk that is nearly full', async () => {
    for (let moreBytes = 0; moreBytes < 150_000; moreBytes += 50_000) {
      const world = new World({ seed: 1, capacityBytes: (5 << 20) + moreBytes })
      const log = await world.open({ ringBytes: 1 << 20, segmentBytes: 1 << 20, reserveBytes: 2 << 20 })
      const indexes = SegmentIndexes.create(1 << 16)
      const number = indexes.take(() => false)
      const outcomes = SpscRing.create(1 << 20)
      const arena = Buffer.from(new SharedArrayBuffer(1 << 20))
      const intake = new BatchIntake(
        {
          writer: openWriter(log),
          outcomes,
          indexes,
          seen: new SeenRecords({ base: NO_SEGMENT, number, index: indexes.at(number) }),
          stopping: () => false,
          arena,
          gateway: GatewayBudget.create(),
          datasets: { add: () => {} },
          gatewayLimits: { records: Infinity, bytes: Infinity },
          maxBodyBytes: arena.byteLength,
          prepared: null,
          now: () => 0,
        },
        parseTenantPolicy(JSON.stringify({ tenants: [TENANT] }), 1),
      )
      const take = (batch: number): { kind: number; message: string } => {
        const body = bodyOf(batch)
        body.copy(arena)
        intake.take({
          request: batch,
          policyGeneration: 1,
          tenant: 0,
          credential: 0,
          signal: SIGNAL_LOG,
          format: FORMAT_JSON,
          source: SOURCE_OTLP_HTTP,
          encoding: 0,
          bodyOffset: 0,
          bodyBytes: body.byteLength,
          receivedAtLow: 0,
          receivedAtHigh: 0,
          preparedSlot: NOT_PREPARED,
          ticket: 0,
        })
        world.step()
        for (let at = outcomes.next(); at >= 0; at = outcomes.next()) {
          const { kind, tailBytes } = readOutcomeHead(outcomes.bytes, at)
          const from = at + OUTCOME_HEAD_BYTES
          const message = kind === REFUSED ? outcomes.bytes.toString('utf8', from, from + tailBytes) : ''
          outcomes.release()
          if (kind === ACCEPTED || kind === REFUSED) return { kind, message }
        }
        assert.fail('no outcome')
      }

      let accepted = 0
      let outcome = take(accepted)
      while (outcome.kind === ACCEPTED) outcome = take(++accepted)
      assert.match(outcome.message, /^nothing was stored: the disk is full/)
      assert(accepted > 0)
      assert.equal(replay(log, world.files).frames.length, FRAMES * accepted)
      await log.close()
    }
  })
})
