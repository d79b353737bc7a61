import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { crc32 } from '../../native-free-codecs/crc32.ts'
import { FRAME_HEADER_BYTES, encodeFrameHeader, frameBytes } from '../../native-free-codecs/frame.ts'
import { framesOf, messagesOf } from '../../src/cluster/groups.ts'
import type { CheckedFrame, WholeFrame } from '../../src/cluster/groups.ts'
import { STREAM_BEGIN, StreamHistory } from '../../src/cluster/history.ts'
import { LOG_BEGIN } from '../../src/cluster/message.ts'
import type { LogPlace } from '../../src/cluster/message.ts'
import { seedOf } from '../support/seed.ts'

const LOG = { logId: 77, epoch: 3 }

/** Consecutive frames with payloads of these sizes; negative: the frame opens a segment. */
function logOf(sizes: readonly number[]): readonly WholeFrame[] {
  let place = LOG_BEGIN
  return sizes.map((size, i) => {
    const payloadBytes = Math.abs(size)
    const opens = size < 0 || i === 0
    const position = !opens ? place.position : i === 0 ? 64 : place.position + 128
    const bytes = Buffer.alloc(frameBytes(payloadBytes))
    bytes.fill(i + 1, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + payloadBytes)
    const payloadCrc = crc32(bytes.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + payloadBytes))
    const chain = encodeFrameHeader(
      {
        position,
        durableBefore: 0,
        payloadBytes,
        type: 1,
        flags: 0,
        previousHeaderCrc: place.chain,
        payloadCrc,
        headerCrc: 0,
        ...LOG,
      },
      bytes,
      0,
    )
    place = { position: position + bytes.byteLength, chain }
    return { bytes, end: place }
  })
}

test('however a group is cut into messages, the same frames come back', (context) => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: -600, max: 600 }), { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 50, max: 900 }),
      (sizes, bytesMax) => {
        const frames = logOf(sizes)
        const history = new StreamHistory<Uint8Array>({ ...STREAM_BEGIN, epoch: 3, writer: 'a/1' })
        const back: CheckedFrame[] = []
        let sequence = 0
        for (const offered of messagesOf(frames, LOG_BEGIN, bytesMax)) {
          assert.ok(offered.body.byteLength <= bytesMax && offered.bytes === offered.body.byteLength)
          sequence += 1
          const kind = offered.part === null ? 'frames' : 'part'
          const rest = { epoch: 3, writer: 'a/1', ordinal: sequence, successor: null }
          const verdict = history.apply(sequence, { kind, ...offered, ...rest })
          if (verdict.kind === 'held') continue
          assert.ok(verdict.kind === 'frames', verdict.kind)
          const read = framesOf(verdict.bodies, verdict, LOG)
          assert.ok(typeof read !== 'string', JSON.stringify(read))
          back.push(...read)
        }
        assert.deepEqual(history.end, frames.at(-1)!.end)
        assert.deepEqual(
          back.map(({ bytes, end }) => ({ bytes: Buffer.from(bytes), end })),
          frames.map(({ bytes, end }) => ({ bytes: Buffer.from(bytes), end })),
        )
        assert.deepEqual(
          back.map(({ opensSegment }) => opensSegment),
          sizes.map((size, i) => size < 0 || i === 0),
        )
      },
    ),
    { seed: seedOf(context) },
  )
})

test('a group that fits is one message, of the frame itself when it has one', () => {
  const frames = logOf([10, 20, 30])
  assert.equal([...messagesOf(frames, LOG_BEGIN, 10_000)].length, 1)
  assert.equal([...messagesOf(frames.slice(0, 1), LOG_BEGIN, 10_000)][0]!.body, frames[0]!.bytes)
})

test('frames that are not what they should be are refused', () => {
  const frames = logOf([10, 20])
  const bytes = Buffer.concat(frames.map((frame) => frame.bytes))
  const all = { begin: LOG_BEGIN, end: frames[1]!.end }
  const refusal = (changed: Buffer, range: { begin: LogPlace; end: LogPlace } = all, log = LOG): string => {
    const read = framesOf([changed], range, log)
    assert.ok(typeof read === 'string')
    return read
  }
  const withByte = (at: number): Buffer => {
    const changed = Buffer.from(bytes)
    changed[at]! ^= 1
    return changed
  }
  assert.match(refusal(withByte(0)), /no frame at byte 0/)
  assert.match(refusal(withByte(FRAME_HEADER_BYTES + 1)), /payload .* damaged/)
  assert.match(refusal(bytes.subarray(0, bytes.byteLength - 8)), /not whole/)
  assert.match(refusal(bytes.subarray(0, frames[0]!.bytes.byteLength)), /the frames end at/)
  assert.match(refusal(bytes, all, { logId: 78, epoch: 3 }), /another log/)
  assert.match(refusal(bytes, all, { logId: 77, epoch: 4 }), /epoch 3, not 4/)
  assert.match(
    refusal(bytes, { ...all, begin: { position: 8, chain: 0 } }),
    /next frame begins at 64, but the log ends at 8/,
  )
  assert.match(refusal(bytes, { ...all, begin: { position: 64, chain: 5 } }), /does not follow/)
})
