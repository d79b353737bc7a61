/** Figures of several rounds, as comparisons show them. */

/** The upper one of an even number. */
export const medianOf = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >>> 1]!

/** The median of the ratios of each round. */
export const medianRatio = (values: readonly number[], to: readonly number[]): number =>
  round3(medianOf(values.map((value, i) => value / to[i]!)))

/** To three digits. */
export const round3 = (value: number): number => Number(value.toPrecision(3))
