import { stripVTControlCharacters } from 'node:util'

/** Lines whose cells stand below each other; the last column is as long as it is. Colours take no room. */
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
