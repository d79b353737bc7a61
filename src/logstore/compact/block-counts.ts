/** Counts the rows of a block that match a search with a single condition. The bundle has these counts, so the block is not read (token-counts.ts K1). */
import type { NameCondition, Search } from '../search/expression.ts'
import { resolveName } from '../search/names.ts'
import { isAscii } from '../search/words.ts'
import { SEVERITY_BITS } from './block-writer.ts'
import type { CompactBlock } from './compact-directory.ts'
import type { CompactIndex } from './compact-index.ts'
import { PAIRS, WORDS, isPairKey, pairToken } from './token-counts.ts'

/** The number of rows that match, or UNKNOWN. */
export type BlockCount = (block: CompactBlock) => number
export const UNKNOWN = -1

/** Gives the counts of a bundle for a search. Null: bundles have no counts for such a search. */
export function blockCountsOf(search: Search): ((index: CompactIndex) => BlockCount) | null {
  switch (search.kind) {
    case 'all':
      return () => (block) => block.rows
    case 'severity': {
      const { min, max } = search
      return () => (block) => rowsBetween(block, min, max)
    }
    case 'text': {
      const [word] = search.words
      const isOne = search.words.length === 1 && !search.prefix && isAscii(word!)
      return isOne ? (index) => countsOfToken(index, word!, WORDS) : null
    }
    case 'name': {
      const pair = pairOf(search)
      const isAnywhere = pair !== null && pair.places === 3
      return isAnywhere ? (index) => countsOfToken(index, pairToken(pair.key, pair.value), PAIRS) : null
    }
    default:
      return null
  }
}

function countsOfToken(index: CompactIndex, token: string, kind: number): BlockCount {
  const rows = index.rowsWithToken(token)
  if (rows === null) return () => UNKNOWN
  return ({ number, counted }) => ((counted & kind) !== 0 && rows[number]! > 0 ? rows[number]! : UNKNOWN)
}

function rowsBetween({ severityRows }: CompactBlock, min: number, max: number): number {
  if (severityRows === null) return UNKNOWN
  let rows = 0
  for (let severity = 1; severity < SEVERITY_BITS; severity++) {
    if (severity >= min && severity <= max) rows += severityRows[severity]!
  }
  return rows
}

/**
 * The key and value that a condition asks for. Null: it is not about an attribute, or a number or a boolean may match it as well. Blocks with lists or maps
 * in attributes count no pairs. `places`: in how many of resource, scope and record the attribute may be.
 */
export function pairOf({
  name,
  value,
}: NameCondition): { readonly key: string; readonly value: string; readonly places: number } | null {
  if (value.kind !== 'equals' || value.number !== null || !isAscii(value.text)) return null
  if (value.text === 'true' || value.text === 'false') return null
  const named = resolveName(name)
  if (named.kind !== 'attribute' || !isPairKey(named.key)) return null
  return { key: named.key, value: value.text, places: named.of.length }
}
