/**
 * The records that a question finds, page by page as one scrolls. All pages are of the store as the first one saw it, so rows stand still.
 *
 * R1 [bounded]  ROWS_MAX rows of a few hundred bytes each are kept; beyond, the page asks for a narrower question
 */
import { useEffect, useRef, useState } from 'preact/hooks'
import { againLater } from '../loading.ts'
import { asRefusal } from '../request.ts'
import type { Refusal } from '../request.ts'
import { queryRecords } from './api.ts'
import type { Question } from './api.ts'
import { rowOf } from './rows.ts'
import type { Row } from './rows.ts'

const FIRST_PAGE = 100
const PAGE = 500
/** R1 */
const ROWS_MAX = 200_000

interface Found {
  /** Grows at its end: with a new array, each page would copy all those before it. */
  readonly rows: Row[]
  readonly matched: number
  readonly cursor: string | null
  readonly quarantined: number
}

export interface Results {
  /** Null: the first page is on its way, or was refused. */
  readonly found: Found | null
  readonly problem: Refusal | null
  readonly hasMore: boolean
  readonly isFull: boolean
  /** Loads another page, unless one is on its way. */
  readonly more: () => void
}

/** @param question null: there is nothing to ask for */
export function useResults(question: Question | null, order: 'asc' | 'desc'): Results {
  const key = JSON.stringify([question, order])
  const [state, setState] = useState<{ key: string; found: Found | null; problem: Refusal | null }>({
    key: '',
    found: null,
    problem: null,
  })
  const leaving = useRef(new AbortController())
  const isLoading = useRef(false)

  const load = async (before: Found | null, asker: AbortController): Promise<void> => {
    if (question === null) return
    const { signal } = asker
    isLoading.current = true
    try {
      const page = before === null ? { limit: FIRST_PAGE } : { limit: PAGE, cursor: before.cursor! }
      const answer = await queryRecords(question, order, page, signal)
      const rows = answer.results.map(({ record }) => rowOf(record))
      if (signal.aborted) return
      const found = {
        rows: before === null ? rows : appended(before.rows, rows),
        matched: answer.matched_records,
        cursor: answer.page.next_cursor,
        quarantined: answer.quarantined_records ?? 0,
      }
      setState({ key, found, problem: null })
    } catch (error) {
      if (signal.aborted) return
      const problem = asRefusal(error)
      setState({ key, found: before, problem })
      againLater(problem, asker, () => isLoading.current || void load(before, asker))
    }
    if (!signal.aborted) isLoading.current = false
  }

  useEffect(() => {
    leaving.current = new AbortController()
    void load(null, leaving.current)
    return () => leaving.current.abort()
  }, [key])

  const { found, problem } = state.key === key ? state : { found: null, problem: null }
  const isFull = (found?.rows.length ?? 0) >= ROWS_MAX
  const hasMore = found !== null && found.cursor !== null && !isFull
  return {
    found,
    problem,
    hasMore,
    isFull,
    more: () => {
      if (hasMore && !isLoading.current) void load(found, leaving.current)
    },
  }
}

function appended(rows: Row[], more: readonly Row[]): Row[] {
  for (const row of more) rows.push(row)
  return rows
}
