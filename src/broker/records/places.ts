/** A list of records by place, as one array of numbers, ready to go to a reader thread. */

export const PLACE_NUMBERS = 3

export class Places {
  /** Three for each record: offset in the stream, base of the segment, and where the frame begins in it, in bytes. */
  readonly numbers: Float64Array
  count = 0

  /** @param capacity records that fit */
  constructor(capacity: number) {
    this.numbers = new Float64Array(PLACE_NUMBERS * capacity)
  }

  add(offset: number, segmentBase: number, place: number): void {
    const at = PLACE_NUMBERS * this.count
    this.numbers[at] = offset
    this.numbers[at + 1] = segmentBase
    this.numbers[at + 2] = place
    this.count += 1
  }

  offset(number: number): number {
    return this.numbers[PLACE_NUMBERS * number]!
  }

  segmentBase(number: number): number {
    return this.numbers[PLACE_NUMBERS * number + 1]!
  }

  place(number: number): number {
    return this.numbers[PLACE_NUMBERS * number + 2]!
  }
}
