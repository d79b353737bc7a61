/** The keys `j` and `k`: to the next row of a list, and to the one before. */
import type { VNode } from 'preact'
import { html } from './html.ts'

interface StepsProps {
  readonly count: number
  /** Index of the open row; below 0: none. */
  readonly at: number
  readonly onGo: (at: number) => void
}

/** @param step to the next row by 1, to the one before by -1 */
export function StepKeys({ step }: { readonly step: (by: number) => void }): readonly VNode[] {
  const button = (key: string, by: number): VNode =>
    html`<button
      type="button"
      class="hidden"
      tabindex="-1"
      aria-hidden="true"
      data-key=${key}
      onClick=${() => step(by)}
    ></button>`
  return [button('j', 1), button('k', -1)]
}

/** The same for a list whose rows have an index. */
export function Steps({ count, at, onGo }: StepsProps): VNode {
  const step = (by: number): void => {
    const next = at < 0 ? 0 : at + by
    if (next >= 0 && next < count) onGo(next)
  }
  return html`<div><${StepKeys} step=${step} /></div>`
}
