/**
 * A list of which only the rows in sight exist: a hundred thousand scroll like ten.
 *
 * L1 [one-stop]  Tab goes into one row and out of the list again, whatever it holds; the arrows go from row to row
 * L2 [focus]     the row that has the focus exists also out of sight: the focus would be lost with it
 * L3 [each-key]  each arrow is one row, also when keys come faster than rows are drawn: the row that the focus goes to is remembered until it exists
 */
import {
  Virtualizer,
  defaultRangeExtractor,
  elementScroll,
  observeElementOffset,
  observeElementRect,
} from '@tanstack/virtual-core'
import type { VirtualizerOptions } from '@tanstack/virtual-core'
import type { ComponentChildren, VNode } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { html } from './html.ts'

interface ListProps {
  readonly label: string
  readonly count: number
  readonly rowPixels: number
  /** Index of the row that must be in sight; the list scrolls there when it changes. */
  readonly shown?: number | null
  readonly row: (index: number) => ComponentChildren
  /** Rows that are in sight, and some beyond: what they show should be loaded. The top one is in sight itself. */
  readonly onRange?: (first: number, last: number, top: number) => void
}

const OVERSCAN = 12
const CONTROLS = 'a[href], button, input'

type Options = VirtualizerOptions<HTMLDivElement, HTMLDivElement>

export function VirtualList({ label, count, rowPixels, shown = null, row, onRange }: ListProps): VNode {
  const scroller = useRef<HTMLDivElement>(null)
  const rows = useRef<HTMLDivElement>(null)
  const [, renew] = useState(0)
  const [focused, setFocused] = useState<number | null>(null)
  const awaited = useRef<number | null>(null) // L3
  const options: Options = {
    count,
    estimateSize: () => rowPixels,
    getScrollElement: () => scroller.current,
    overscan: OVERSCAN,
    rangeExtractor: (range) => {
      const drawn = new Set(defaultRangeExtractor(range))
      for (const kept of [focused, awaited.current]) if (kept !== null && kept < count) drawn.add(kept) // L2, L3
      return [...drawn].toSorted((a, b) => a - b)
    },
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => renew((before) => before + 1),
  }
  const [virtualizer] = useState(() => new Virtualizer(options))
  virtualizer.setOptions(options)
  /* oxlint-disable no-underscore-dangle -- what the library has for those who write an adapter */
  useLayoutEffect(() => virtualizer._didMount(), [])
  useLayoutEffect(() => virtualizer._willUpdate())
  /* oxlint-enable no-underscore-dangle */
  useLayoutEffect(() => {
    if (shown !== null && shown >= 0) virtualizer.scrollToIndex(shown, { align: 'auto' })
  }, [shown])

  const items = virtualizer.getVirtualItems()
  const { startIndex = 0, endIndex = 0 } = virtualizer.range ?? {}
  const [first, last] = [Math.max(0, startIndex - OVERSCAN), Math.min(count - 1, endIndex + OVERSCAN)]
  useLayoutEffect(() => {
    if (count > 0) onRange?.(first, last, startIndex)
  }, [first, last, startIndex, count])

  const stop =
    focused !== null && focused < count
      ? focused
      : shown !== null && shown >= first && shown <= last
        ? shown
        : startIndex
  useLayoutEffect(() => {
    for (const row of rowsOf(rows.current!)) {
      for (const control of controlsOf(row)) control.tabIndex = indexOf(row) === stop ? 0 : -1 // L1
    }
  })
  useLayoutEffect(() => {
    if (awaited.current !== null) focusRow(awaited.current) // L3
  })
  const take = ({ target }: FocusEvent): void => {
    awaited.current = null
    const row = rowsOf(rows.current!).find((each) => each.contains(target as Node)) // the focus is in an element
    setFocused(row ? indexOf(row) : null)
  }
  const leave = ({ relatedTarget }: FocusEvent): void => {
    if (rows.current!.contains(relatedTarget as Node | null)) return // null: it goes nowhere
    awaited.current = null
    setFocused(null)
  }
  /** Returns whether the row exists and has what it shows. The control is the one at the same place as that which has the focus now. */
  const focusRow = (index: number): boolean => {
    const all = rowsOf(rows.current!)
    const next = all.find((each) => indexOf(each) === index)
    const from = document.activeElement as HTMLElement // the focus is in a row
    const here = all.find((each) => each.contains(from))
    const controls = next ? controlsOf(next) : []
    const control = controls[here ? controlsOf(here).indexOf(from) : 0] ?? controls[0]
    control?.focus({ preventScroll: true })
    return control !== undefined
  }
  const step = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    const here = rowsOf(rows.current!).find((each) => each.contains(event.target as Node)) // not `focused`, which is that of the last drawing
    if (by === undefined || !here || event.altKey || event.ctrlKey || event.metaKey) return
    event.preventDefault()
    const next = (awaited.current ?? indexOf(here)) + by
    if (next < 0 || next >= count) return
    awaited.current = null
    if (!focusRow(next)) {
      awaited.current = next
      renew((before) => before + 1)
    }
    virtualizer.scrollToIndex(next, { align: 'auto' })
  }

  return html`<div class="list" ref=${scroller} tabindex="0" role="region" aria-label=${label}>
    <div
      ref=${rows}
      role="list"
      aria-label=${label}
      onFocusIn=${take}
      onFocusOut=${leave}
      onKeyDown=${step}
      style=${{ height: `${virtualizer.getTotalSize()}px` }}
    >
      ${items.map(
        ({ index, start, key }) =>
          html`<div
            role="listitem"
            key=${key}
            data-index=${index}
            aria-setsize=${count}
            aria-posinset=${index + 1}
            style=${{ height: `${rowPixels}px`, transform: `translateY(${start}px)` }}
          >
            ${row(index)}
          </div>`,
      )}
    </div>
  </div>`
}

const rowsOf = (list: HTMLElement): readonly HTMLElement[] => [...list.children] as HTMLElement[] // which are drawn above
const indexOf = (row: HTMLElement): number => Number(row.dataset['index'])
const controlsOf = (row: HTMLElement): readonly HTMLElement[] => [...row.querySelectorAll<HTMLElement>(CONTROLS)]
