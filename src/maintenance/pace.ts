/** Limits a copy to a number of bytes a second: it waits before each piece until the pieces before have taken their time. */

interface PaceClock {
  readonly nowMs: () => number
  /** Returns when so much time has passed. */
  readonly sleep: (ms: number) => void
}

/** @param bytesPerSecond null: as fast as it goes */
export function paceOf(bytesPerSecond: number | null, { nowMs, sleep }: PaceClock): (bytes: number) => void {
  if (bytesPerSecond === null) return () => {}
  let dueMs = nowMs()
  return (bytes) => {
    const waitMs = dueMs - nowMs()
    if (waitMs > 0) sleep(waitMs)
    dueMs = Math.max(dueMs, nowMs()) + (bytes / bytesPerSecond) * 1000 // time that went unused is not made up for
  }
}
