/**
 * Work whose length a client decides, in slices: a generator that yields how many steps it took since it last did. A step takes a few
 * nanoseconds. The caller that runs it decides when it continues (src/objectstore/s3/pace.ts).
 */
export type Sliced<Result> = Generator<number, Result, void>

/** Most steps of one slice. */
export const STEPS_AT_ONCE = 1 << 16
