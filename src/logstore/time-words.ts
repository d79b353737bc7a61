/** Times as the log store's columns hold them: ns since the Unix epoch, u64, in two words. */

export const timeOfWords = (high: number, low: number): bigint => (BigInt(high) << 32n) | BigInt(low)

export const highWord = (time: bigint): number => Number(time >> 32n)
export const lowWord = (time: bigint): number => Number(time & 0xffff_ffffn)

export const isBefore = (aHigh: number, aLow: number, bHigh: number, bLow: number): boolean =>
  aHigh < bHigh || (aHigh === bHigh && aLow < bLow)
