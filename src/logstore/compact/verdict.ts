/** Verdicts on the rows of a block for one condition, by its texts and numbers: the row differs, its record has to be read, or the row matches. */
import { ROOT_LOG, ROOT_SPAN } from './record-shape.ts'
import type { Shape } from './shapes.ts'

export const NO_MATCH = 0
export const MUST_READ = 1
export const MATCHES = 2

/** One for all rows, or one for each. */
export type Verdict = number | Uint8Array

/** Whether columns tell what fields and attributes say: not for JSON, records that are kept whole, and irregular shapes. */
export const isKnown = ({ root, isIrregular }: Shape): boolean =>
  (root === ROOT_LOG || root === ROOT_SPAN) && !isIrregular
