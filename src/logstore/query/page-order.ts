/**
 * The order in which a query walks the segments of a snapshot: by time, so that the records of the page come first, and the page refuses all later ones at
 * once. This also holds when senders deliver old records late, so that a later segment has earlier times.
 */

/** Nanoseconds as doubles: they decide the order of the work, never an answer. */
export interface TimeSpan {
  readonly earliest: number
  readonly latest: number
}

/** Each segment with its number, which is its place in the order of positions. */
export function inOrderOfPage<Spanned extends TimeSpan>(
  segments: readonly Spanned[],
  descending: boolean,
): readonly (readonly [number, Spanned])[] {
  const numbered = [...segments.entries()]
  if (!descending) return numbered.sort(([, a], [, b]) => a.earliest - b.earliest)
  return numbered.reverse().sort(([, a], [, b]) => b.latest - a.latest)
}
