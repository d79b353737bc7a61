/**
 * Payloads of the broker's frames, by the type in the frame's header. Each file below documents its layout; integers are little-endian.
 *
 *   type  name                 payload
 *      1  RECORDS              records of one stream                                        frames/records-frame.ts
 *      2  DEAD_LETTER          a copy, the end of its delivery and their audit event        frames/dead-letter.ts
 *      3  CLAIM                the leases that one claim gave                               frames/claim.ts
 *      4  RESOLVE              ends, renewals and delays of deliveries                      frames/resolve.ts
 *      5  RECORDS_REPLICATED   records that came from another site                          frames/records-frame.ts
 *      6  CHANGE               everything rare, as JSON                                     frames/change.ts
 *      7  REDRIVE              dead letters put back, the mark that they are used, the event  frames/redrive.ts
 *
 * B1  the frame holds every result of time, chance and choice, so that applying it decides nothing
 * B2  decoding checks every length: a payload that does not fit its own lengths decodes to null, not to an exception
 *
 * CHANGE is imported separately: its schema takes longer to load than everything that a reader thread needs.
 */
export * from './frames/claim.ts'
export * from './frames/dead-letter.ts'
export * from './frames/frame-records.ts'
export * from './frames/frame-types.ts'
export * from './frames/record.ts'
export * from './frames/redrive.ts'
export * from './frames/records-frame.ts'
export * from './frames/resolve.ts'
