/** The search, with what fits to the word that is being typed: keys of the dataset, and their values. */
import type { VNode } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { compact, exact } from '../format.ts'
import { html } from '../html.ts'
import type { Field } from './api.ts'
import { quoted } from './view.ts'

const SUGGESTIONS_MAX = 9
const PREFIX = /^(?:resource\.|scope\.)?attributes\./

/** A search finds an attribute by its key alone. */
export const shortName = (name: string): string => name.replace(PREFIX, '')

interface Suggestion {
  /** Replaces the word. */
  readonly text: string
  readonly shown: string
  readonly records: number
  /** Whether the search is complete with it. */
  readonly isValue: boolean
}

/** The word before the caret: where it begins, its key and the part of a value. */
function wordAt(
  text: string,
  caret: number,
): { readonly start: number; readonly key: string; readonly value: string | null } {
  const word = /(?:"(?:[^"\\]|\\.)*"?|[^\s()"])*$/.exec(text.slice(0, caret))![0]
  const bare = word.replace(/^-/, '')
  const [, key = bare, , value = null] = /^("(?:[^"\\]|\\.)*"|[^":]*)(:"?(.*?)"?)?$/.exec(bare) ?? []
  return { start: caret - bare.length, key, value }
}

function suggestionsFor(text: string, caret: number, fields: readonly Field[]): readonly Suggestion[] {
  const { key, value } = wordAt(text, caret)
  const wanted = (value ?? key).toLowerCase()
  if (value === null) {
    const names = new Map(fields.map((field) => [shortName(field.name), field.records]))
    return [...names]
      .filter(([name]) => wanted !== '' && name.toLowerCase().includes(wanted))
      .toSorted(([a], [b]) => Number(b.startsWith(wanted)) - Number(a.startsWith(wanted)))
      .slice(0, SUGGESTIONS_MAX)
      .map(([name, records]) => ({ text: `${name}:`, shown: `${name}:`, records, isValue: false }))
  }
  const field = fields.find(({ name }) => name === key || shortName(name) === key)
  return (field?.values ?? [])
    .filter((each) => !each.value_is_cut && each.value.toLowerCase().includes(wanted))
    .slice(0, SUGGESTIONS_MAX)
    .map((each) => {
      const written = /^[\p{L}\p{N}_./-]+$/u.test(each.value) ? each.value : quoted(each.value)
      return { text: `${key}:${written} `, shown: each.value, records: each.records, isValue: true }
    })
}

interface BoxProps {
  readonly text: string
  readonly fields: readonly Field[]
  readonly onSearch: (text: string) => void
}

export function SearchBox({ text, fields, onSearch }: BoxProps): VNode {
  const [draft, setDraft] = useState(text)
  const [caret, setCaret] = useState(0)
  const [isOpen, setOpen] = useState(false)
  const [chosen, setChosen] = useState(-1)
  const input = useRef<HTMLInputElement>(null)
  /** Where the caret goes with the next draft. */
  const moveTo = useRef<number | null>(null)
  const id = useId()
  useEffect(() => setDraft(text), [text])
  const suggestions = isOpen ? suggestionsFor(draft, caret, fields) : []
  const isShown = suggestions.length > 0

  const typed = (event: { currentTarget: HTMLInputElement }): void => {
    setDraft(event.currentTarget.value)
    setCaret(event.currentTarget.selectionStart ?? 0)
    setOpen(true)
    setChosen(-1)
  }
  const take = (suggestion: Suggestion): void => {
    const { start } = wordAt(draft, caret)
    const next = draft.slice(0, start) + suggestion.text + draft.slice(caret).trimStart()
    const end = start + suggestion.text.length
    setDraft(next)
    setCaret(end)
    setChosen(-1)
    setOpen(!suggestion.isValue)
    moveTo.current = end
  }
  useLayoutEffect(() => {
    if (moveTo.current === null) return
    input.current?.setSelectionRange(moveTo.current, moveTo.current)
    moveTo.current = null
  }, [draft])
  const pressed = (event: KeyboardEvent): void => {
    const count = suggestions.length
    if (event.key === 'Escape' && isShown) {
      event.stopPropagation()
      event.preventDefault()
      setOpen(false)
    } else if (isShown && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
      event.preventDefault()
      setChosen((chosen + (event.key === 'ArrowDown' ? 1 : count)) % count)
    } else if (isShown && (event.key === 'Enter' || event.key === 'Tab') && chosen >= 0) {
      event.preventDefault()
      take(suggestions[chosen]!)
    } else if (event.key === 'Enter') {
      setOpen(false)
      onSearch(draft.trim())
    }
  }
  return html`<div class="search" role="search">
    <input
      ref=${input}
      type="search"
      data-key="/"
      role="combobox"
      aria-label="Search"
      aria-expanded=${isShown ? 'true' : 'false'}
      aria-controls=${id}
      aria-autocomplete="list"
      aria-activedescendant=${isShown && chosen >= 0 ? `${id}-${chosen}` : undefined}
      placeholder="Search: words, key:value, severity:>=warn, duration:>250ms"
      autocomplete="off"
      spellcheck=${false}
      value=${draft}
      onInput=${typed}
      onKeyDown=${pressed}
      onClick=${(event: { currentTarget: HTMLInputElement }) => setCaret(event.currentTarget.selectionStart ?? 0)}
      onSearch=${() => draft === '' && text !== '' && onSearch('')}
      onBlur=${() => setOpen(false)}
    />
    <ul id=${id} role="listbox" aria-label="Suggestions" hidden=${!isShown}>
      ${suggestions.map(
        (each, at) =>
          html`<li
            key=${each.text}
            id=${`${id}-${at}`}
            role="option"
            aria-selected=${at === chosen ? 'true' : 'false'}
            onMouseDown=${(event: MouseEvent) => {
              event.preventDefault()
              take(each)
            }}
          >
            <span class="cut mono">${each.shown}</span
            ><span class="fine" title=${exact(each.records)}>${compact(each.records)}</span>
          </li>`,
      )}
    </ul>
  </div>`
}
