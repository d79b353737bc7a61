/**
 * When a service cleans its log: what lives in the oldest segment is appended again, and the segment goes.
 *
 * C1  it begins when the log is more than twice what lives in it, and four segments more: in the long run it writes no more than what is
 *     stored
 * C2  with little room on the disk it begins with less garbage, although more has to be moved for what comes back. Else a full disk would
 *     stay full until half of it is garbage
 * C3  it stops while there still is room for what else goes on then, such as deletes
 */
import type { Log } from './log.ts'

/** C1. Also the room that is little (C2). */
const SEGMENTS_SPARED = 4
/** C2: garbage that is left alone then. */
const LIVE_SHARE_SPARED = 1 / 8
const SEGMENT_SHARE_SPARED = 1 / 4
/** C3 */
const SEGMENT_SHARE_LEFT = 1 / 4

export function isCleaningDue(
  log: Pick<Log, 'roomFor'>,
  segmentBytes: number,
  liveBytes: number,
  garbageBytes: number,
): boolean {
  const isShortOfRoom = log.roomFor('admit') < SEGMENTS_SPARED * segmentBytes
  return isShortOfRoom
    ? garbageBytes > Math.max(LIVE_SHARE_SPARED * liveBytes, SEGMENT_SHARE_SPARED * segmentBytes)
    : garbageBytes > liveBytes + SEGMENTS_SPARED * segmentBytes
}

/**
 * C3
 *
 * @param bytes of what is to be moved now
 * @throws Error when that would take the last room
 */
export function demandRoomToMove(log: Pick<Log, 'roomFor'>, segmentBytes: number, bytes: number): void {
  if (log.roomFor('finish') >= bytes + SEGMENT_SHARE_LEFT * segmentBytes) return
  throw new Error('the disk is too full to move what lives: delete more, or make room')
}
