/** Stands in for a page that fails while it is drawn: the navigation stays, and another address is drawn anew. */
import { Component } from 'preact'
import type { ComponentChildren } from 'preact'
import { html } from './html.ts'
import { Problem } from './parts.ts'
import { asRefusal } from './request.ts'
import type { Refusal } from './request.ts'

interface BoundaryProps {
  /** The address that is shown. */
  readonly url: string
  readonly children?: ComponentChildren
}

interface BoundaryState {
  /** Why the page of an address cannot be drawn; null: none has failed. */
  readonly failure: { readonly url: string; readonly problem: Refusal } | null
}

export class Boundary extends Component<BoundaryProps, BoundaryState> {
  override state: BoundaryState = { failure: null }

  override componentDidCatch(error: unknown): void {
    reportError(error) // a bug of the page: the browser shows its stack
    this.setState({ failure: { url: this.props.url, problem: asRefusal(error) } })
  }

  override render({ url, children }: BoundaryProps, { failure }: BoundaryState): ComponentChildren {
    if (failure?.url !== url) return children
    return html`<${Problem} of=${failure.problem} title="This page cannot be shown.">
      <button type="button" onClick=${() => location.reload()}>Load it again</button>
    <//>`
  }
}
