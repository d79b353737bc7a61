/** A list of which only the rows in sight exist: a hundred thousand scroll like ten. */
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core'
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
  /** Rows that are in sight, and some beyond: what they show should be loaded. */
  readonly onRange?: (first: number, last: number) => void
}

type Options = VirtualizerOptions<HTMLDivElement, HTMLDivElement>

export function VirtualList({ label, count, rowPixels, shown = null, row, onRange }: ListProps): VNode {
  const scroller = useRef<HTMLDivElement>(null)
  const [, renew] = useState(0)
  const options: Options = {
    count,
    estimateSize: () => rowPixels,
    getScrollElement: () => scroller.current,
    overscan: 12,
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
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0]
  useLayoutEffect(() => {
    if (count > 0) onRange?.(first, last)
  }, [first, last, count])

  return html`<div class="list" ref=${scroller} tabindex="0" role="region" aria-label=${label}>
    <div role="list" aria-label=${label} style=${{ height: `${virtualizer.getTotalSize()}px` }}>
      ${items.map(
        ({ index, start, key }) =>
          html`<div
            role="listitem"
            key=${key}
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
