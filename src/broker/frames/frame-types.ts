/** Types of the broker's frames: see frames.ts. */

export const FRAME_RECORDS = 1
export const FRAME_DEAD_LETTER = 2
export const FRAME_CLAIM = 3
export const FRAME_RESOLVE = 4
export const FRAME_RECORDS_REPLICATED = 5
export const FRAME_CHANGE = 6
export const FRAME_REDRIVE = 7
