/** The parts that all pages are made of. */
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { ago, bytes, compact, duration, exact, exactBytes, exactDuration, time } from './format.ts'
import { html } from './html.ts'
import type { Action } from './loading.ts'
import type { Refusal } from './request.ts'

type Children = { readonly children?: ComponentChildren }

export const Count = ({ of }: { of: number }): VNode =>
  html`<span class="number" title=${exact(of)}>${compact(of)}</span>`

export const Bytes = ({ of }: { of: number }): VNode =>
  html`<span class="number" title=${exactBytes(of)}>${bytes(of)}</span>`

export const Duration = ({ seconds }: { seconds: number }): VNode =>
  html`<span class="number" title=${exactDuration(seconds)}>${duration(seconds)}</span>`

/** How long a record has waited; null: none waits. */
export const Waiting = ({ ms }: { ms: number | null }): VNode =>
  ms === null ? html`<span>–</span>` : html`<${Duration} seconds=${Math.max(1, ms) / 1000} />`

/** Beyond it, dates of JavaScript have no text. */
const MOMENT_MAX_MS = 8.64e15

/** A moment: how long ago, and exactly when on hover. Senders of records may name times that no date has. */
export function When({ ms, asTime = false }: { ms: number; asTime?: boolean }): VNode {
  if (Number.isNaN(ms)) return html`<span>–</span>`
  if (Math.abs(ms) > MOMENT_MAX_MS) return html`<span>${exact(ms)} ms after 1970</span>`
  return html`<time datetime=${new Date(ms).toISOString()} title=${`${time(ms)} · ${new Date(ms).toISOString()}`}>
    ${asTime ? time(ms) : ago(ms, Date.now())}
  </time>`
}

/** What went wrong, in the service's words, and what to do. */
export function Problem({ of, title, children }: { of: Refusal; title?: string } & Children): VNode {
  return html`<div class="notice bad" role="alert">
    <p><strong>${title ?? (of.isAway ? 'Not reachable' : 'Refused')}</strong> ${of.message}</p>
    ${of.action !== '' && html`<p>${of.action}</p>`} ${children}
    ${
      (of.code !== '' || of.requestId !== '') &&
      html`<p class="fine">
        ${of.code !== '' && html`<code>${of.code}</code>`}
        ${of.requestId !== '' && html` request <code>${of.requestId}</code>`}
      </p>`
    }
  </div>`
}

interface EmptyProps extends Children {
  readonly title: string
  readonly command?: string | undefined
  /** Whether there is nothing else on the page. */
  readonly isPage?: boolean
}

/** For a list that is still empty: what it would hold, and the one command that makes an entry. */
export function Empty({ title, command, isPage = false, children }: EmptyProps): VNode {
  return html`<div class="empty">
    ${isPage ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`} ${children && html`<p>${children}</p>`}
    ${command && html`<${Command} text=${command} />`}
  </div>`
}

/** A command to run in a terminal. */
export const Command = ({ text }: { text: string }): VNode =>
  html`<div class="command">
    <pre tabindex="0" aria-label="Command"><code>${text}</code></pre>
    <${Copy} text=${text} what="command" />
  </div>`

/** Browsers have a clipboard only for pages of this machine or over TLS. */
export function Copy({ text, what, label }: { text: string; what: string; label?: string }): VNode | null {
  const [isCopied, setCopied] = useState(false)
  if (!isSecureContext) return null
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text)
    setCopied(true)
    setTimeout(() => setCopied(false), 1500)
  }
  return html`<button
    type="button"
    class=${label === undefined ? 'quiet' : ''}
    onClick=${() => void copy()}
    aria-label=${label ?? `Copy ${what}`}
  >
    ${isCopied ? 'Copied' : (label ?? 'Copy')}
  </button>`
}

export const Loading = (): VNode => html`<p class="loading" role="status">Loading…</p>`

interface FieldProps extends Children {
  readonly label: string
  readonly name: string
  readonly value?: string
  readonly type?: string
  readonly hint?: string
  readonly required?: boolean
  readonly rows?: number
  readonly placeholder?: string
  readonly autofocus?: boolean
  readonly step?: string
  readonly onInput?: (value: string) => void
}

/** A labelled control; with children a choice of them, with rows several lines. */
export function Field({ label, hint, children, rows, onInput, value, ...rest }: FieldProps): VNode {
  const id = useId()
  const hintId = `${id}-hint`
  const control = {
    id,
    ...rest,
    autocomplete: 'off',
    spellcheck: false,
    ...(hint && { 'aria-describedby': hintId }),
    ...(onInput && { onInput: (event: { currentTarget: HTMLInputElement }) => onInput(event.currentTarget.value) }),
    ...(onInput ? { value } : { defaultValue: value }),
  }
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${
      children
        ? html`<select ...${control}>
            ${children}
          </select>`
        : rows
          ? html`<textarea rows=${rows} ...${control}></textarea>`
          : html`<input ...${control} />`
    }
    ${hint && html`<small id=${hintId}>${hint}</small>`}
  </div>`
}

export type FormValues = Readonly<Record<string, string>>

interface FormProps extends Children {
  readonly action: Action
  readonly submit: string
  readonly isDangerous?: boolean
  readonly onSubmit: (values: FormValues) => Promise<unknown>
  readonly onCancel?: () => void
  /** More buttons beside the one that sends. */
  readonly beside?: ComponentChildren
}

export function Form({ action, submit, isDangerous, onSubmit, onCancel, beside, children }: FormProps): VNode {
  const send = (event: SubmitEvent): void => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement // the handler is the form's own
    const values = Object.fromEntries(
      Array.from(new FormData(form), ([name, value]) => [name, typeof value === 'string' ? value : value.name]),
    )
    action.run(() => onSubmit(values))
  }
  return html`<form class="form" onSubmit=${send}>
    ${children} ${action.problem && html`<${Problem} of=${action.problem} />`}
    <div class="buttons">
      <button type="submit" class=${isDangerous ? 'danger' : 'primary'} disabled=${action.isRunning}>${submit}</button>
      ${onCancel && html`<button type="button" onClick=${onCancel}>Cancel</button>`} ${beside}
    </div>
  </form>`
}

interface DialogProps extends Children {
  readonly title: string
  readonly onClose: () => void
  readonly isWide?: boolean
}

/** The browser's own modal dialog: Escape closes it, the focus stays inside and goes back. */
export function Dialog({ title, onClose, isWide, children }: DialogProps): VNode {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const opened = dialog.current!
    opened.showModal()
    return () => opened.close()
  }, [])
  return html`<dialog ref=${dialog} class=${isWide ? 'wide' : ''} aria-labelledby=${id} onClose=${onClose}>
    <header>
      <h2 id=${id}>${title}</h2>
      <button type="button" class="quiet" aria-label="Close" onClick=${onClose}>×</button>
    </header>
    ${children}
  </dialog>`
}

interface TabsProps {
  readonly label: string
  readonly tabs: readonly {
    readonly name: string
    readonly title: string
    readonly href: string
    readonly count?: number
  }[]
  readonly current: string
}

export const Tabs = ({ label, tabs, current }: TabsProps): VNode =>
  html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(
      ({ name, title, href, count }) =>
        html`<a key=${name} href=${href} aria-current=${name === current ? 'page' : undefined}>
          ${title}${count !== undefined && html` <span class="badge" title=${exact(count)}>${compact(count)}</span>`}
        </a>`,
    )}
  </nav>`

/** An address of the page, with a query of what is not empty. */
export function link(path: string, query: Readonly<Record<string, string | number | null | undefined>> = {}): string {
  const entries = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '')
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? path : `${path}?${text}`
}
