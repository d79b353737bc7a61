/** A log on a real disk, made of real frames without a service: sealed segments and an active one. */
import { mkdirSync, writeFileSync } from 'node:fs'
import {
  FRAME_HEADER_BYTES,
  crc32,
  emptyFrameHeader,
  encodeFrameHeader,
  frameBytes,
} from '../../../native-free-codecs/frame.ts'
import type { LogPlace } from '../../../src/cluster/message.ts'
import { DurableMark } from '../../../src/log/durable-mark.ts'
import { writeFormat } from '../../../src/log/format.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import {
  RECORDS_NAME,
  SEGMENT_HEADER_BYTES,
  encodeSegmentFooter,
  encodeSegmentHeader,
  segmentName,
} from '../../../src/log/segment-format.ts'

const LOG_ID = 0x1234
const EPOCH = 1

export interface WrittenLog {
  readonly directory: string
  readonly segmentsName: string
  readonly end: LogPlace
  readonly frames: number
}

/** Writes a log. The last of its segments is active. */
export function writtenLog(directory: string, segments: number, segmentBytes: number, payloadBytes = 4000): WrittenLog {
  const segmentsName = 'segments'
  let [position, chain, frames] = [0, 0, 0]
  for (let number = 1; number <= segments; number += 1) {
    const base = position
    const parts: Buffer[] = [encodeSegmentHeader({ logId: LOG_ID, base, epoch: EPOCH, previousHeaderCrc: chain })]
    let frameCount = 0
    for (position = base + SEGMENT_HEADER_BYTES; position - base < segmentBytes;) {
      const frame = Buffer.alloc(frameBytes(payloadBytes), frames % 256)
      const payload = frame.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + payloadBytes)
      frame.fill(0, FRAME_HEADER_BYTES + payloadBytes)
      const payloadCrc = crc32(payload, 0, payload.byteLength)
      const header = { ...emptyFrameHeader(), position, payloadBytes, type: 2, epoch: EPOCH, logId: LOG_ID }
      chain = encodeFrameHeader({ ...header, payloadCrc, previousHeaderCrc: chain }, frame, 0)
      parts.push(frame)
      position += frame.byteLength
      frameCount += 1
      frames += 1
    }
    const end = position
    if (number < segments) {
      parts.push(encodeSegmentFooter({ frameCount, logId: LOG_ID, end, epoch: EPOCH, lastHeaderCrc: chain, base }))
      position += parts.at(-1)!.byteLength
    }
    const folder = `${directory}/${segmentsName}/${segmentName(base)}`
    mkdirSync(folder, { recursive: true })
    writeFileSync(`${folder}/${RECORDS_NAME}`, Buffer.concat(parts))
  }
  DurableMark.set(nodeFiles, directory, LOG_ID, { epoch: EPOCH, position, begin: 0 })
  writeFormat(nodeFiles, directory, LOG_ID)
  return { directory, segmentsName, end: { position, chain }, frames }
}
