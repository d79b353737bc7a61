/** Records as they are stored. The list stands still while the pointer, or the keyboard, is in it. */
import type { VNode } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { exact } from '../format.ts'
import { html } from '../html.ts'
import { Empty, Problem } from '../parts.ts'
import { Steps } from '../steps.ts'
import { VirtualList } from '../virtual-list.ts'
import { RecordRow } from './rows.ts'
import type { Row } from './rows.ts'
import { useTail } from './tail.ts'

const ROW_PIXELS = 28

interface LiveProps {
  readonly dataset: string
  readonly search: string
  /** What was stored before, the newest first. */
  readonly before: readonly Row[]
  readonly selected: string | null
  readonly onOpen: (id: string) => void
  /** The tail has begun, and has all that is stored from here on: the list of older records must be loaded again. */
  readonly onConnected: () => void
}

export function LiveList({ dataset, search, before, selected, onOpen, onConnected }: LiveProps): VNode {
  const { rows, waiting, missed, isConnected, problem, hold } = useTail({ dataset, search })
  const place = useRef<HTMLDivElement>(null)
  const isPointed = useRef(false)
  const look = (): void => hold(isPointed.current || Boolean(place.current?.querySelector(':focus-visible')))
  const point = (isIn: boolean): void => {
    isPointed.current = isIn
    look()
  }
  useEffect(() => {
    const holder = place.current!
    holder.addEventListener('focusin', look)
    holder.addEventListener('focusout', look)
    return () => hold(false)
  }, [])
  useEffect(() => {
    if (isConnected) onConnected()
  }, [isConnected])
  const all = useMemo(() => {
    const known = new Set(rows.map(({ id }) => id))
    return [...rows, ...before.filter(({ id }) => !known.has(id))]
  }, [rows, before])
  const index = selected === null ? -1 : all.findIndex(({ id }) => id === selected)
  return html`<section aria-label="Records">
    <div class="line">
      <p role="status">
        <span class=${isConnected ? 'status ok' : 'status warn'}
          >${isConnected ? 'Live' : problem?.isAway === false ? 'Ended' : 'Connecting…'}</span
        >
        ${
          waiting > 0
            ? html` <strong class="number">${exact(waiting)}</strong> new, shown when the pointer leaves the list`
            : html` <span class="fine">New records appear at the top.</span>`
        }
        ${missed !== 0 && html` <span class="fine">${missed === null ? 'Some' : exact(missed)} were left out.</span>`}
      </p>
    </div>
    <${Steps} count=${all.length} at=${index} onGo=${(at: number) => onOpen(all[at]!.id)} />
    ${problem !== null && !problem.isAway && html`<${Problem} of=${problem} />`}
    <div class="held" ref=${place} onPointerEnter=${() => point(true)} onPointerLeave=${() => point(false)}>
      ${
        all.length === 0
          ? html`<${Empty} title="No new record yet">Records appear here when they are stored.<//>`
          : html`<${VirtualList}
              label="Records as they come"
              count=${all.length}
              rowPixels=${ROW_PIXELS}
              shown=${index < 0 ? null : index}
              row=${(at: number) => html`<${RecordRow} row=${all[at]!} isSelected=${all[at]!.id === selected} onOpen=${() => onOpen(all[at]!.id)} />`}
            />`
      }
    </div>
  </section>`
}
