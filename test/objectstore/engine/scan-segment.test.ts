import assert from 'node:assert/strict'
import { test } from 'node:test'
import { replaySegment } from '../../../src/log/read.ts'
import { FRAME_OBJECT } from '../../../src/objectstore/engine/frames.ts'
import { scanPart } from '../../../src/objectstore/engine/scan-segment.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { StoreClient } from './client.ts'
import { StoreWorld } from './world.ts'

const SEGMENT_BYTES = 4 << 20
const OBJECTS = 1400

test('a segment of many small objects is told part by part, each frame once', async () => {
  const world = await StoreWorld.open({ segmentBytes: SEGMENT_BYTES })
  const client = await StoreClient.open(world)
  for (let n = 0; n < OBJECTS; n += 1) await client.put(`key-${n}`, payloadOf(n, 600))
  const { files, log } = world
  const segment = log.segments[0]!
  const end = log.committed
  const expected: number[] = []
  replaySegment(files, segment, {
    logId: log.id,
    to: end,
    onFrame: ({ type, position }) => void (type === FRAME_OBJECT && expected.push(position)),
    onDamage: () => assert.fail('damaged'),
  })
  assert.equal(expected.length, OBJECTS)

  const { base, recordsPath } = segment
  const found: number[] = []
  let parts = 0
  for (let from = base; from < end; parts += 1) {
    const { frames, damage, next } = scanPart(files, { kind: 'scan', logId: log.id, base, from, end, recordsPath })
    assert.deepEqual(damage, [])
    assert(frames.length < OBJECTS && next > from)
    found.push(...frames.map(({ position }) => position))
    from = next
  }
  assert.deepEqual(found, expected)
  assert(parts > 1)
})
