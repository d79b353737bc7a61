/**
 * Payloads of the broker's frames, by the type in the frame's header. Each file below draws its bytes; integers are little-endian.
 *
 *   type  name                 payload
 *      1  RECORDS              records of one stream                                        frames/records-frame.ts
 *      2  DEAD_LETTER          a copy, the end of its delivery and their audit event        frames/dead-letter.ts
 *      3  CLAIM                the leases that one claim gave                               frames/claim.ts
 *      4  RESOLVE              ends, renewals and delays of deliveries                      frames/resolve.ts
 *      5  RECORDS_REPLICATED   records that came from another site                          frames/records-frame.ts
 *      6  CHANGE               everything rare, as JSON                                     frames/change.ts
 *
 * B1  what time, chance or a choice decided stands in the frame: applying it is bookkeeping
 * B2  decoding takes no length on trust: what does not fit its own lengths is null, not an exception
 *
 * CHANGE is imported by itself: its schema takes longer to load than all else that a reader thread needs.
 */
export * from './frames/claim.ts'
export * from './frames/dead-letter.ts'
export * from './frames/frame-records.ts'
export * from './frames/frame-types.ts'
export * from './frames/record.ts'
export * from './frames/redrive.ts'
export * from './frames/records-frame.ts'
export * from './frames/resolve.ts'
