/**
 * What the producer puts into the ring of a journal lane. Integers are in the byte order of the machine, because it is never stored.
 *
 *   offset  bytes  field
 *        0      4  generation      of the producer state it was built from; the lane discards any other
 *        4      4  kind            flags: MESSAGE_SEAL, or of a frame: MESSAGE_OPENS_SEGMENT, MESSAGE_SYNC, MESSAGE_REPORT_WRITTEN
 *        8      4  externalOffset  in the arena
 *       12      4  externalBytes   0: the frame has no external part
 *       16      …  of a frame: header, inline part, and, without an external part, the padding
 */
export const MESSAGE_HEAD_BYTES = 16

/** No frame: the segment that is open gets its footer now. */
export const MESSAGE_SEAL = 1
/** The frame is the first of a new segment, 64 bytes behind its base. */
export const MESSAGE_OPENS_SEGMENT = 2
/** Durable before it is reported: the group ends with fdatasync. */
export const MESSAGE_SYNC = 4
/** A waiter needs only the write: main is woken before the sync of the group. */
export const MESSAGE_REPORT_WRITTEN = 8
