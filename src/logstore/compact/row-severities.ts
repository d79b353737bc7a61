/** The severities of the records of a block, as far as its columns tell them: the same as `effectiveSeverity` of the record. */
import type { BlockTexts } from './block-reader.ts'
import { ROOT_LOG, ROOT_SPAN } from './record-shape.ts'
import { valuesIn } from './shapes.ts'
import type { Shapes } from './shapes.ts'
import { isKnown } from './verdict.ts'

/** A span has none. */
export const NO_SEVERITY = -1
/** A log without a number in a known column: the record itself has to be read. */
export const UNKNOWN_SEVERITY = -2

const SEVERITY_PATH = `${ROOT_LOG}/16`
const SEVERITY_MAX = 0x7fff_ffff

/** By row: its severity number, NO_SEVERITY or UNKNOWN_SEVERITY. */
export function severitiesOfRows({ shapes, rowShape, severities }: BlockTexts, bundle: Shapes): Int32Array {
  const number = bundle.columns.findIndex(({ path }) => path === SEVERITY_PATH)
  const column = severities.get(number)
  const counts = shapes.map((shape) => valuesIn(shape, number))
  const isNumber = shapes.map(isKnown)
  const without = shapes.map((shape) =>
    shape.root === ROOT_SPAN && !shape.isIrregular ? NO_SEVERITY : UNKNOWN_SEVERITY,
  )
  const rows = new Int32Array(rowShape.length)
  let at = 0
  for (let row = 0; row < rows.length; row++) {
    const shape = rowShape[row]!
    rows[row] = without[shape]!
    const count = counts[shape]!
    if (count === 0) continue
    const low = column!.pairs.low[at]!
    const high = column!.pairs.high[at]!
    at += count
    if (isNumber[shape] && high === 0 && low > 0 && low <= SEVERITY_MAX) rows[row] = low
  }
  return rows
}
