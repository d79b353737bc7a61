/** What a frame does to the state: live when it was taken, at a start when it is read. There is no other place for it. */
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
  /** An EXTENT has no effect by itself, so that its beginning may be enough. */
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
