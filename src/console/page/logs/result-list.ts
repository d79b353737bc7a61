/** The records that were found. Pages are loaded when their rows come near. */
import type { ComponentChildren, VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import { exact } from '../format.ts'
import { html } from '../html.ts'
import { Loading, Problem } from '../parts.ts'
import { Steps } from '../steps.ts'
import { VirtualList } from '../virtual-list.ts'
import { RecordRow } from './rows.ts'
import type { Results } from './results.ts'

const ROW_PIXELS = 28
/** The next page is loaded so many rows before the end. */
const AHEAD = 200

interface ListProps {
  readonly results: Results
  readonly selected: string | null
  readonly isOldestFirst: boolean
  readonly onOrder: (isOldestFirst: boolean) => void
  readonly onOpen: (id: string) => void
  /** Shown in place of a list without rows. */
  readonly nothing: ComponentChildren
}

export function ResultList({ results, selected, isOldestFirst, onOrder, onOpen, nothing }: ListProps): VNode {
  const { found, problem, hasMore, isFull, more } = results
  const rows = found?.rows ?? []
  const index = useMemo(() => rows.findIndex(({ id }) => id === selected), [rows, rows.length, selected])
  return html`<section aria-label="Records">
    <div class="line">
      <p role="status">
        ${found && html`<strong class="number">${exact(found.matched)}</strong> ${found.matched === 1 ? 'record' : 'records'}`}
        ${found !== null && found.quarantined > 0 && html`<span class="fine">, and ${exact(found.quarantined)} damaged ones left out</span>`}
      </p>
      <span class="space"></span>
      <div class="chips" role="group" aria-label="Order">
        <button type="button" aria-pressed=${!isOldestFirst} onClick=${() => onOrder(false)}>Newest</button>
        <button type="button" aria-pressed=${isOldestFirst} onClick=${() => onOrder(true)}>Oldest</button>
      </div>
    </div>
    <${Steps} count=${rows.length} at=${index} onGo=${(at: number) => onOpen(rows[at]!.id)} />
    ${problem && html`<${Problem} of=${problem} />`}
    ${
      found === null
        ? problem === null && html`<${Loading} />`
        : rows.length === 0
          ? nothing
          : html`<${VirtualList}
              label="Records found"
              count=${rows.length + (hasMore ? 1 : 0)}
              rowPixels=${ROW_PIXELS}
              shown=${index < 0 ? null : index}
              onRange=${(_first: number, last: number) => hasMore && last >= rows.length - AHEAD && more()}
              row=${(at: number) => {
                const row = rows[at]
                return row
                  ? html`<${RecordRow} row=${row} isSelected=${row.id === selected} onOpen=${() => onOpen(row.id)} />`
                  : html`<div class="record log"><span class="fine">Loading…</span></div>`
              }}
            />`
    }
    ${isFull && html`<p class="fine">There are more. Narrow the time or the search to see them.</p>`}
  </section>`
}
