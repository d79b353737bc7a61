/** Keys of the records with their most frequent values. A click searches for a value, or leaves it out. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { compact, exact } from '../format.ts'
import { html } from '../html.ts'
import type { Loaded } from '../loading.ts'
import { Loading, Problem } from '../parts.ts'
import type { Field, FieldsAnswer } from './api.ts'
import { shortName } from './search-box.ts'
import { logsLink, withTerm } from './view.ts'
import type { View } from './view.ts'

const PLACES: Readonly<Record<Field['of'], string>> = {
  record: 'Attributes',
  field: 'Fields',
  scope: 'Scope',
  resource: 'Resource',
}

export function FieldsPanel({ view, loaded }: { view: View; loaded: Loaded<FieldsAnswer> }): VNode {
  const [filter, setFilter] = useState('')
  const { value, problem } = loaded
  const wanted = filter.toLowerCase()
  const shown = (value?.fields ?? []).filter(({ name }) => shortName(name).toLowerCase().includes(wanted))
  return html`<aside class="fields" aria-label="Fields">
    <input
      type="search"
      aria-label="Find a field"
      placeholder="Find a field"
      value=${filter}
      onInput=${(event: { currentTarget: HTMLInputElement }) => setFilter(event.currentTarget.value)}
    />
    ${problem && html`<${Problem} of=${problem} />`} ${value === null && problem === null && html`<${Loading} />`}
    ${(['record', 'field', 'scope', 'resource'] as const).map((place) => {
      const fields = shown.filter((field) => field.of === place)
      return (
        fields.length > 0 &&
        html`<section key=${place} aria-label=${PLACES[place]}>
          <h2>${PLACES[place]}</h2>
          ${fields.map((field) => html`<${OneField} key=${field.name} field=${field} view=${view} />`)}
        </section>`
      )
    })}
    ${value?.sampled && html`<p class="fine">Counts are from a sample of ${exact(value.sampled_records)} records.</p>`}
  </aside>`
}

function OneField({ field, view }: { field: Field; view: View }): VNode {
  const { name, records, distinct_values: distinct, values } = field
  const short = shortName(name)
  return html`<details>
    <summary title=${`${name}: ${exact(distinct)} values in ${exact(records)} records`}>
      <span class="cut">${short}</span><span class="badge">${compact(distinct)}</span>
    </summary>
    <ul>
      ${values.map(({ value, records: count, value_is_cut: isCut }) => {
        const share = { width: `${(100 * count) / records}%` }
        return html`<li key=${value}>
          <i class="share" style=${share}></i>
          ${
            isCut
              ? html`<span class="cut">${value}…</span>`
              : html`<a
                    class="cut"
                    href=${logsLink(withTerm(view, name, value, false))}
                    title=${`Only records with ${short} ${value}`}
                    >${value === '' ? '(empty)' : value}</a
                  >
                  <a
                    class="out"
                    href=${logsLink(withTerm(view, name, value, true))}
                    aria-label=${`Leave out ${short} ${value}`}
                    title="Leave these out"
                    >−</a
                  >`
          }
          <span class="fine number" title=${exact(count)}>${compact(count)}</span>
        </li>`
      })}
    </ul>
  </details>`
}
