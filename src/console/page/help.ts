/** Keys that work everywhere, and the sheet that lists them. */
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { html } from './html.ts'
import { Dialog } from './parts.ts'

interface Destination {
  readonly href: string
  readonly title: string
  readonly key: string
}

const OTHER_KEYS = [
  [['/'], 'Go to the search or filter of the page'],
  [['r'], 'Reload what is shown'],
  [['t'], 'Begin or end the live tail of the logs'],
  [['n'], 'Create: a stream, a bucket, a record, an upload'],
  [['j', 'k'], 'Next and previous record, span or object'],
  [['↓', '↑'], 'Next and previous row, in a list'],
  [['Esc'], 'Close what is open'],
  [['?'], 'Show this'],
] as const

/** How long a second key may take. */
const SEQUENCE_MS = 1500

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))

/** Controls take a key by the attribute `data-key`. */
export function useShortcuts(
  destinations: readonly Destination[],
  route: (href: string) => void,
  showHelp: () => void,
): void {
  const goes = useRef(0)
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      if (document.querySelector('dialog[open]') !== null) return
      const isSecond = event.timeStamp - goes.current < SEQUENCE_MS
      goes.current = 0
      const destination = isSecond ? destinations.find(({ key }) => key === event.key) : undefined
      if (destination) return route(destination.href)
      if (event.key === 'g') return void (goes.current = event.timeStamp)
      if (event.key === '?') return showHelp()
      const control = document.querySelector<HTMLElement>(`[data-key="${CSS.escape(event.key)}"]`)
      if (control === null) return
      event.preventDefault()
      if (control instanceof HTMLInputElement) control.focus()
      else control.click()
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [destinations, route, showHelp])
}

export function Help({ destinations, onClose }: { destinations: readonly Destination[]; onClose: () => void }): VNode {
  const keys = [...destinations.map(({ key, title }) => [['g', key], title] as const), ...OTHER_KEYS]
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <dl class="keys">
      ${keys.map(
        ([each, meaning]) =>
          html`<div key=${meaning}>
            <dt>${each.map((key) => html`<kbd>${key}</kbd> `)}</dt>
            <dd>${meaning}</dd>
          </div>`,
      )}
    </dl>
  <//>`
}
