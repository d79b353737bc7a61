/** What the texts and numbers of a block say of the rows, for one condition. */
import { ROOT_LOG, ROOT_SPAN } from './record-shape.ts'
import type { Shape } from './shapes.ts'

export const DIFFERS = 0
export const LOOK = 1
export const MATCHES = 2

/** One for all rows, or one for each. */
export type Verdict = number | Uint8Array

/** Whether its values are where their names say. */
export const isKnown = ({ root, isIrregular }: Shape): boolean =>
  (root === ROOT_LOG || root === ROOT_SPAN) && !isIrregular
