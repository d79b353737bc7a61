/** Figures for people. Locale-independent, so that two reports can be compared. */

/** 1234567 → '1 234 567'; a narrow gap, not a comma, so that no one takes it for a decimal point. */
export function formatCount(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(?:\d{3})+$)/g, ' ')
}

/** Milliseconds with three significant digits, in the unit that suits: '85.0 µs', '4.21 ms', '1.30 s'. */
export function formatMs(valueMs: number): string {
  if (valueMs === 0) return '0'
  if (valueMs < 1) return `${significant(valueMs * 1000)} µs`
  return valueMs < 1000 ? `${significant(valueMs)} ms` : `${significant(valueMs / 1000)} s`
}

function significant(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** Megabytes of 1 000 000 bytes, without the unit. */
export function formatMegabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

export function formatPercent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`
}
