/** Enforcement of retention does exactly what its dry run says, to the byte. Removed records stay removed, and their space is freed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { RetentionLimits } from '../../../src/broker/operations.ts'
import type { CreateStreamBody } from '../../../src/broker/wire/requests.ts'
import { encodeSegmentIndex, publishSegmentIndex, readSegmentIndex } from '../../../src/broker/records/segment-index.ts'
import { Client, inputOf } from './client.ts'
import { expectedPlan } from './dump.ts'
import { Trace } from './trace.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { RESERVE_BYTES } from '../../support/engine-world.ts'
import { BrokerWorld, CALLER, Pending, resultAfterFlush } from '../../support/broker-world.ts'
import { modelRuns } from '../../support/seed.ts'

const NO_LIMITS: RetentionLimits = { maxAgeMs: null, maxBytes: null }
const GROUP = { stream: 'orders', group: 'g1' }

async function opened(retention: NonNullable<CreateStreamBody['retention']>, segmentBytes = 4096) {
  const world = new BrokerWorld({ segmentBytes })
  await world.open()
  const trace = new Trace(world)
  trace.attach()
  const client = new Client(world)
  await client.now(client.create('orders', { retention }))
  const plan = (limits = NO_LIMITS) => resultAfterFlush(world, world.broker.retentionPlan(CALLER, 'orders', limits))
  const expected = (limits = NO_LIMITS) =>
    expectedPlan(trace.reference, trace.reference.stream(CALLER.tenant, 'orders')!, world.wallMs, limits)
  const enforce = async (): Promise<void> => {
    const enforced = world.retainer.enforce()
    await world.flush()
    await enforced
    trace.check()
  }
  const publish = async (payloadBytes: number, count = 1): Promise<void> => {
    const input = (i: number) => ({
      messageId: `m-${i}`,
      payload: { text: 'x'.repeat(payloadBytes), encoding: 'utf8' as const },
      key: null,
      eventTimeMs: null,
      headers: {},
      durability: null,
    })
    const inputs = Array.from({ length: count }, (_, i) => input(i))
    await resultAfterFlush(world, world.broker.publishBatch(CALLER, 'orders', inputs))
  }
  return { world, trace, client, plan, expected, enforce, publish }
}

/** Runs retention for a while. A run may never end. */
async function idle(world: BrokerWorld): Promise<void> {
  for (let round = 0; round < 10; round += 1) {
    void world.retainer.enforce()
    for (let step = 0; step < 60; step += 1) await world.step()
  }
}

async function assertLeftAlone(world: BrokerWorld): Promise<void> {
  const { written } = world.log
  await idle(world)
  assert.equal(world.log.written, written)
}

type Opened = Awaited<ReturnType<typeof opened>>

/** Asserts that enforcement does what the plan says. */
async function assertTruthful({ plan, expected, enforce, client }: Opened): Promise<void> {
  const planned = await plan()
  const { planned_first_offset, removable_records, removable_bytes, retained_bytes } = planned
  assert.deepEqual({ planned_first_offset, removable_records, removable_bytes, retained_bytes }, expected())
  const before = await client.now(client.describe('orders'))
  assert.equal(removable_bytes + retained_bytes, before.payload_bytes)
  await enforce()
  const after = await client.now(client.describe('orders'))
  assert.equal(after.first_offset, planned_first_offset)
  assert.equal(after.record_count, planned.retained_records)
  assert.equal(after.payload_bytes, retained_bytes)
  assert.equal(before.record_count - after.record_count, removable_records)
  const again = await plan()
  assert.deepEqual([again.removable_records, again.removable_bytes], [0, 0])
}

describe('retention', () => {
  it('makes room on a full disk with less garbage than would be cleaned otherwise', async () => {
    const { world, client, publish, trace } = await opened({ max_bytes: 1000 })
    await client.now(client.create('kept', {}))
    const lookAtSpace = async (): Promise<void> => {
      await world.advance(300)
      world.world.lanes[0]!.idle()
    }
    world.files.capacityBytes -= world.files.freeBytes('/') - RESERVE_BYTES - 50 * 4096
    await lookAtSpace()
    let kept = 0
    const fill = async (): Promise<void> => {
      for (; ; kept += 1) {
        await publish(300)
        await client.now(client.publish('kept', `k-${kept}`))
        await client.now(client.publish('kept', `l-${kept}`))
      }
    }
    await assert.rejects(fill(), /the disk is full/)
    assert.ok(kept > 50)
    await idle(world)
    await lookAtSpace()
    await publish(300)
    trace.check()
    assert.ok((await client.messages('kept')).length >= 2 * kept)
  })

  it('makes room on a full disk after two restarts, when records grow too old', async () => {
    const segmentBytes = 32 * 1024
    const { world, client, publish, trace, enforce } = await opened({ max_age_millis: 1000 }, segmentBytes)
    await client.now(client.create('kept', {}))
    await client.now(client.publish('kept', 'k-1'))
    const limitDisk = async (bytes: number): Promise<void> => {
      world.files.capacityBytes += RESERVE_BYTES + bytes - world.files.freeBytes('/')
      await lookAtSpace()
    }
    const lookAtSpace = async (): Promise<void> => {
      await world.advance(300)
      world.world.lanes[0]!.idle()
    }
    await limitDisk(20 * segmentBytes)
    const fill = async (): Promise<void> => {
      for (;;) await publish(3000, 3)
    }
    await assert.rejects(fill(), /the disk is full/)
    assert.ok(world.log.segments.length > 10)
    for (let restart = 0; restart < 2; restart += 1) {
      const { committed } = world.log
      await world.close()
      await world.open()
      trace.attach(committed)
    }
    await world.advance(2000)
    for (let round = 0; round < 5; round += 1) {
      await enforce()
      await lookAtSpace()
    }
    const { segments } = world.log
    assert.ok(segments.at(-1)!.end - segments[0]!.base < 3 * segmentBytes)
    for (let n = 0; n < 30; n += 1) await publish(3000)
    assert.deepEqual(await client.messages('kept'), ['k-1'])
    world.end('crash')
    await world.open()
    assert.deepEqual(await client.messages('kept'), ['k-1'])
  })

  it('goes on with other streams, and gives room back, while one cannot be read', async () => {
    const { world, client, publish, enforce } = await opened({ max_bytes: 150 })
    const names = ['also unreadable', 'filler', 'behind']
    for (const name of names) await client.now(client.create(name, { retention: { max_bytes: 150 } }))
    const fill = async (): Promise<void> => {
      for (let n = 0; n < 20; n += 1) await client.now(client.publish('filler', `${n} ${'x'.repeat(1000)}`))
    }
    await fill()
    await publish(40, 5)
    await client.now(client.publish('also unreadable', 'x'.repeat(100)))
    await client.now(client.publish('also unreadable', 'x'.repeat(100)))
    const unreadable = world.log.segments.at(-1)!
    await fill()
    for (let n = 0; n < 5; n += 1) await client.now(client.publish('behind', `${n} ${'x'.repeat(40)}`))
    await world.engine.idle()
    world.files.faults.read = (path) => {
      if (path.startsWith(`${unreadable.directory}/`)) throw new Error('EIO')
    }
    const firstOffsets = async (): Promise<number[]> => {
      const described = ['orders', ...names].map(async (name) => (await client.now(client.describe(name))).first_offset)
      return Promise.all(described)
    }
    await enforce()
    assert.deepEqual(await firstOffsets(), [0, 0, 40, 3])
    assert.equal(world.log.segments[0]!.base, unreadable.base)
    assert.equal(world.warnings.filter((message) => message.includes('for some streams')).length, 1)

    world.files.faults = {}
    await enforce()
    assert.deepEqual(await firstOffsets(), [2, 1, 40, 3])
  })

  it('goes on after a restart before anything was published', async () => {
    const { world, publish, trace, client, enforce } = await opened({ max_bytes: 1000 })
    await client.now(client.create('kept', {}))
    await client.now(client.publish('kept', 'k-1'))
    for (let n = 0; n < 20; n += 1) await publish(1000, 3)
    const { committed } = world.log
    await world.close()
    await world.open()
    trace.attach(committed)
    await enforce()
    const { segments } = world.log
    assert.ok(segments.at(-1)!.end - segments[0]!.base < 6 * 4096)
    assert.ok(world.log.written - committed < 2000)
    assert.deepEqual(await client.messages('kept'), ['k-1'])
  })

  for (const [what, isPublished] of [
    ['one stream of which little is kept', () => false],
    ['streams of which one is kept', (n: number) => n < 400 && n % 20 === 0],
  ] as const) {
    it(`keeps the log below twice what lives and six segments beside steady publishing to ${what}`, async () => {
      const { world, client, trace, publish } = await opened({ max_bytes: 1000 })
      await client.now(client.create('kept', {}))
      for (let n = 0; n < 20; n += 1) await client.now(client.publish('kept', `k-${n}`))
      const kept = Array.from({ length: 20 }, (_, n) => `k-${n}`)
      let most = 0
      let isEnforcing = false
      const publishing: Promise<void>[] = []
      for (let n = 0; n < 1500; n += 1) {
        publishing.push(publish(400))
        if (isPublished(n)) {
          kept.push(`m-${n}`)
          void client.publish('kept', `m-${n}`)
        }
        if (!isEnforcing) {
          isEnforcing = true
          void world.retainer.enforce().finally(() => (isEnforcing = false))
        }
        for (let step = 0; step < 6; step += 1) await world.step()
        const { segments } = world.log
        let liveBytes = 0
        for (const stream of world.core.state.streams) liveBytes += stream?.index.storedBytes ?? 0
        const bound = 2 * liveBytes + 6 * 4096
        if (n > 200) most = Math.max(most, segments.at(-1)!.end - segments[0]!.base - bound)
      }
      await world.flush()
      await Promise.all(publishing)
      assert.ok(world.log.segments[0]!.base > 100 * 4096)
      assert.ok(most <= 0, `${most} bytes more than the bound`)
      assert.deepEqual(await client.messages('kept'), kept)
      trace.check()
    })
  }

  it('plans what enforcement does, to the byte, whatever was published when', async () => {
    const publishes = fc.array(
      fc.record({ payloadBytes: fc.nat(200), count: fc.integer({ min: 1, max: 40 }), afterMs: fc.nat(300) }),
      { maxLength: 8 },
    )
    const retention = fc.record(
      { max_bytes: fc.option(fc.nat(6000)), max_age_millis: fc.option(fc.nat(800)) },
      { noNullPrototype: true },
    )
    const overrides = fc.record(
      { maxBytes: fc.option(fc.nat(6000)), maxAgeMs: fc.option(fc.nat(800)) },
      { noNullPrototype: true },
    )
    await fc.assert(
      fc.asyncProperty(retention, publishes, publishes, overrides, async (limits, first, second, other) => {
        const stream = await opened(limits)
        for (const each of [first, second]) {
          for (const { payloadBytes, count, afterMs } of each) {
            await stream.publish(payloadBytes, count)
            await stream.world.advance(afterMs)
          }
          const { planned_first_offset, removable_bytes, retained_bytes, removable_records } = await stream.plan(other)
          const plan = { planned_first_offset, removable_bytes, retained_bytes, removable_records }
          assert.deepEqual(plan, stream.expected(other))
          await assertTruthful(stream)
        }
      }),
      { numRuns: modelRuns(25) },
    )
  })

  it('changes nothing when it only plans', async () => {
    const { world, plan, publish, client } = await opened({ max_bytes: 10 })
    await publish(8, 5)
    const written = world.log.written
    assert.equal((await plan()).planned_first_offset, 4)
    assert.equal((await client.now(client.describe('orders'))).first_offset, 0)
    assert.equal(world.log.written, written)
  })

  it('keeps what the slowest cursor of a name has not passed, and everything while there is none', async () => {
    const stream = await opened({ max_bytes: 0, min_cursor_name: 'c1' })
    const { world, publish, plan } = stream
    await publish(8, 6)
    assert.deepEqual([(await plan()).planned_first_offset, (await plan()).cursor_floor_offset], [0, 0])
    await assertTruthful(stream)
    await resultAfterFlush(world, world.broker.commitCursor(CALLER, GROUP, 'c1', 4))
    await resultAfterFlush(world, world.broker.commitCursor(CALLER, { ...GROUP, group: 'g2' }, 'c1', 2))
    await resultAfterFlush(world, world.broker.commitCursor(CALLER, { ...GROUP, group: 'g3' }, 'other', 1))
    assert.deepEqual([(await plan()).planned_first_offset, (await plan()).cursor_floor_offset], [2, 2])
    await assertTruthful(stream)
  })

  it('keeps what a cursor was set back to while it was planned', async () => {
    const stream = await opened({ max_bytes: 0, min_cursor_name: 'c1' })
    const { world, publish, client } = stream
    await publish(8, 6)
    await resultAfterFlush(world, world.broker.commitCursor(CALLER, GROUP, 'c1', 5))
    world.holdsReads = true
    const enforced = world.retainer.enforce()
    await world.step()
    const rewound = world.broker.rewindCursor(CALLER, GROUP, 'c1', { offset: 1, reason: 'again' })
    await world.flush()
    await Promise.all([enforced, rewound])
    const { first_offset } = await client.now(client.describe('orders'))
    assert.ok(first_offset <= 1, `cursor at 1, records from ${first_offset} on`)
  })

  it('removes what is older by the wall clock, and a record that came with an earlier one only with all before it', async () => {
    const stream = await opened({ max_age_millis: 1000 })
    const { world, publish, plan } = stream
    await publish(8)
    world.wallSkewMs -= 5000
    await publish(8)
    world.wallSkewMs += 5000
    await publish(8)
    assert.equal((await plan()).planned_first_offset, 0)
    await world.advance(1001)
    assert.equal((await plan()).planned_first_offset, 3)
    await assertTruthful(stream)
  })

  it('is told of on pages that begin below, and ends what was leased there', async () => {
    const { world, publish, enforce, client } = await opened({ max_bytes: 20 })
    await publish(8, 3)
    const [first] = await client.now(client.claim('orders'))
    await enforce()
    const page = await resultAfterFlush(
      world,
      world.broker.replay(CALLER, 'orders', {
        start: { by: 'offset', offset: 0 },
        maxRecords: 10,
        maxPayloadBytes: null,
        consumer: null,
        legacy: false,
      }),
    )
    const { records, diagnostics } = JSON.parse(Buffer.from(page).toString()) as {
      records: { offset: number }[]
      diagnostics: { first_offset: number; skipped_by_retention: boolean }
    }
    assert.deepEqual([records[0]!.offset, diagnostics.first_offset, diagnostics.skipped_by_retention], [1, 1, true])
    const late = client.ack(first!)
    await world.flush()
    assert.equal(late.code, 'delivery_not_found')
    assert.equal((await client.now(client.claim('orders')))[0]!.offset, 1)
  })

  it('gives room back: what lives on in old segments is moved, under its own offset, and everything is as it was', async () => {
    const stream = await opened({ max_bytes: 1000 }, 2048)
    const { world, trace, client, publish, enforce } = stream
    await client.now(client.create('keep'))
    await client.now(client.publish('keep', 'k-1'))
    await client.now(client.publish('keep', 'k-2'))
    const [leased] = await client.now(client.claim('keep', { lease_timeout_millis: 1_000_000 }))
    const events = await client.now(client.events())
    const bytes = (): number =>
      world.files.paths().reduce((sum, path) => sum + world.files.contentOf(path).byteLength, 0)
    let most = 0
    for (let i = 0; i < 60; i += 1) {
      await publish(100, 5)
      await enforce()
      most = Math.max(most, bytes())
    }
    assert.ok(world.log.segments[0]!.base > 20_000, 'old segments go')
    assert.ok(most < 40_000, `${most} bytes at most`)
    assert.deepEqual(await client.messages('keep'), ['k-1', 'k-2'])
    assert.deepEqual(await client.now(client.events()), events)
    trace.check()

    world.end('crash')
    await world.open()
    assert.deepEqual(await client.messages('keep'), ['k-1', 'k-2'])
    assert.deepEqual(await client.now(client.events()), events)
    assert.equal((await client.now(client.ack(leased!))).offset, 0)
    assert.equal((await client.now(client.claim('keep')))[0]!.offset, 1)
  })

  for (const [what, made] of [
    ['headers', { headers: { trace: 'h'.repeat(700) } }],
    ['keys', { key: { text: 'k'.repeat(700), encoding: 'utf8' } }],
    ['message ids', { messageId: 'm'.repeat(700) }],
  ] as const) {
    it(`leaves an idle log alone whose records are mostly ${what}, also after a restart`, async () => {
      const { world } = await opened({})
      const inputs = Array.from({ length: 30 }, (_, i) => ({ ...inputOf(`m-${i}`), ...made }))
      const publish = () => resultAfterFlush(world, world.broker.publishBatch(CALLER, 'orders', inputs))
      for (let i = 0; i < 3; i += 1) await publish()
      await assertLeftAlone(world)
      world.end('crash')
      await world.open()
      for (let i = 0; i < 3; i += 1) await publish() // writes checkpoints, without which no segment may be dropped
      await assertLeftAlone(world)
    })
  }

  it('leaves an idle log alone that is mostly audit events, once they were moved', async () => {
    const { world, publish } = await opened({})
    await publish(1)
    for (let i = 0; i < 60; i += 1) {
      await resultAfterFlush(
        world,
        world.broker.rewindCursor(CALLER, GROUP, 'c1', { offset: 0, reason: 'r'.repeat(900) }),
      )
    }
    await assertLeftAlone(world)
  })

  it('ends early when it is closed, and is over by then', async () => {
    const stream = await opened({ max_bytes: 1000 }, 2048)
    const { world, client, publish, enforce } = stream
    await client.now(client.create('keep'))
    for (let i = 0; i < 6; i += 1) await client.now(client.publish('keep', `k-${i}`))
    for (let i = 0; i < 30; i += 1) await publish(100, 5)
    await world.flush()
    const enforced = world.retainer.enforce()
    while (world.core.state.stream(CALLER.tenant, 'orders')!.floor === 0) await nextTurn()
    await world.step()
    while (world.core.appender.inFlight === 0) await nextTurn() // the first record to be moved out of the oldest segment is on its way
    const closed = new Pending(world.retainer.close())
    await nextTurn()
    assert.equal(closed.outcome.kind, 'pending')
    await world.flush()
    await enforced
    assert.equal(closed.outcome.kind, 'answered')
    assert.equal(world.log.segments[0]!.base, 0, 'what lives in it was not moved any more')
    const { written } = world.log
    await enforce()
    assert.equal(world.log.written, written)
    assert.deepEqual(await client.messages('keep'), ['k-0', 'k-1', 'k-2', 'k-3', 'k-4', 'k-5'])
  })

  it('moves what an older version indexed, and counts it from then on', async () => {
    const { world } = await opened({})
    const inputs = Array.from({ length: 90 }, (_, i) => ({ ...inputOf(`m-${i}`), headers: { trace: 'h'.repeat(700) } }))
    for (const input of inputs) await resultAfterFlush(world, world.broker.publish(CALLER, 'orders', input))
    for (const { directory, sealed, ...segment } of world.log.segments) {
      if (!sealed) continue
      const read = readSegmentIndex(world.files, { directory, ...segment })
      assert.ok(read.kind === 'runs')
      for (const { run } of read.runs) run.whole.fill(0, 3)
      const streams = read.runs.map(({ streamNumber, run }) => ({
        number: streamNumber,
        index: { runsIn: () => [run] },
      }))
      publishSegmentIndex(world.files, directory, encodeSegmentIndex(segment, streams))
    }
    world.end('kill')
    await world.open()
    for (const input of inputs.slice(0, 12))
      await resultAfterFlush(world, world.broker.publish(CALLER, 'orders', input)) // writes two checkpoints
    const { written } = world.log
    await idle(world)
    assert.ok(world.log.written > written, 'it is taken for garbage first')
    await assertLeftAlone(world)
  })

  it('leaves a record readable while it is moved, and after the move was lost', async () => {
    const stream = await opened({ max_bytes: 1000 }, 2048)
    const { world, client, publish } = stream
    await client.now(client.create('keep'))
    await client.now(client.publish('keep', 'k-1'))
    let losses = 0
    for (let i = 0; i < 40; i += 1) {
      await publish(100, 5)
      const enforced = world.retainer.enforce()
      const page = client.replay('keep') // read while frames that move records are on their way
      await world.advance(0)
      if (i % 3 === 2) {
        await world.journalDies()
        losses += 1
        await world.advance(60_000) // after too many deaths in a minute, lanes are no longer replaced
      }
      await world.flush()
      await enforced
      assert.deepEqual(
        page.value.records.map(({ message_id }) => message_id),
        ['k-1'],
      )
      assert.deepEqual(await client.messages('keep'), ['k-1'])
    }
    assert.ok(losses > 10 && world.log.segments[0]!.base > 0)
    assert.deepEqual(world.log.incidents, [])
  })
})
