import { stripVTControlCharacters } from 'node:util'

/** Lines with aligned cells; the last column is not padded. Colours take no room. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => shownLength(row[column]!))))
  return rows.map((row) =>
    row
      .map((cell, column) => cell + ' '.repeat(widths[column]! - shownLength(cell)))
      .join('  ')
      .trimEnd(),
  )
}

const shownLength = (cell: string): number => stripVTControlCharacters(cell).length
