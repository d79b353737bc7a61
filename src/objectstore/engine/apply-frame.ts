/** What a frame does to the state: a new one when the log has taken it, a stored one when a start reads it. */
import { StoreError } from '../../errors.ts'
import {
  FRAME_CHANGE,
  FRAME_DELETED,
  FRAME_EXTENT,
  FRAME_OBJECT,
  FRAME_PART,
  decodeChange,
  decodeCommit,
  decodeCommitHead,
  decodeDeleted,
} from './frames.ts'
import { completedOf } from './state.ts'
import type { PartDetails, StoreState } from './state.ts'

interface Frame {
  readonly type: number
  readonly position: number
  /** The beginning of an EXTENT may be enough, as it has no effect by itself. */
  readonly payload: Buffer
}

/** @param frame valid during the call: what is kept of it is copied. @throws StoreError objectstore_frame_unknown */
export function applyFrame(state: StoreState, { type, position, payload }: Frame): void {
  switch (type) {
    case FRAME_CHANGE:
      return state.applyChange(decodeChange(payload), position)
    case FRAME_OBJECT: {
      const head = decodeCommitHead(payload)
      return state.applyObject(head, position, head.uploadId === null ? null : completedOf(decodeCommit(payload)))
    }
    case FRAME_DELETED:
      return state.applyDeleted(decodeDeleted(payload))
    case FRAME_PART: {
      const frame = decodeCommit(payload)
      const details = JSON.parse(frame.details.toString()) as PartDetails // as `Store.putPart` wrote it
      return state.applyPart(frame, details)
    }
    case FRAME_EXTENT:
      return
    default:
      throw new StoreError(
        'corrupt',
        'objectstore_frame_unknown',
        `the frame of type ${type} at position ${position} of the log is unknown to this version: use the version, or the service, that wrote it`,
      )
  }
}
