/**
 * The order in which the segments of a snapshot are walked for a page. Records of the page are met first then, and what comes later is refused at
 * once: also when senders deliver old records last, so that a later segment has earlier times.
 */

/** Nanoseconds as doubles: the order of the work follows from them, never an answer. */
export interface TimeSpan {
  readonly earliest: number
  readonly latest: number
}

/** Each with its number, which is its place in the order of positions. */
export function inOrderOfPage<Spanned extends TimeSpan>(
  segments: readonly Spanned[],
  descending: boolean,
): readonly (readonly [number, Spanned])[] {
  const numbered = [...segments.entries()]
  if (!descending) return numbered.sort(([, a], [, b]) => a.earliest - b.earliest)
  return numbered.reverse().sort(([, a], [, b]) => b.latest - a.latest)
}
