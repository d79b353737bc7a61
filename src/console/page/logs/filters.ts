/** What narrows the records besides the text: signal, severities, and conditions that came by a click. */
import type { VNode } from 'preact'
import { html } from '../html.ts'
import { SEVERITIES } from './otlp.ts'
import type { Level } from './otlp.ts'
import type { View } from './view.ts'

interface FiltersProps {
  readonly view: View
  readonly onChange: (changes: Partial<View>) => void
}

const SIGNALS = [
  [null, 'All'],
  ['log', 'Logs'],
  ['trace', 'Spans'],
] as const

export function Filters({ view, onChange }: FiltersProps): VNode {
  const { signal, levels, terms } = view
  const toggle = (level: Level): void =>
    onChange({ levels: levels.includes(level) ? levels.filter((each) => each !== level) : [...levels, level] })
  return html`<div class="filters">
    <div class="chips" role="group" aria-label="Kind of records">
      ${SIGNALS.map(
        ([value, title]) =>
          html`<button
            key=${title}
            type="button"
            aria-pressed=${signal === value}
            onClick=${() => onChange({ signal: value })}
          >
            ${title}
          </button>`,
      )}
    </div>
    <div class="chips" role="group" aria-label="Severities">
      ${SEVERITIES.map(
        (level) =>
          html`<button key=${level} type="button" aria-pressed=${levels.includes(level)} onClick=${() => toggle(level)}>
            <i class=${`dot ${level}`} aria-hidden="true"></i>${level}
          </button>`,
      )}
    </div>
    ${
      terms.length > 0 &&
      html`<ul class="chips" aria-label="Conditions">
        ${terms.map(
          (term) =>
            html`<li key=${term} class="term">
              <code class="cut">${term}</code>
              <button
                type="button"
                class="quiet"
                aria-label=${`Remove the condition ${term}`}
                onClick=${() => onChange({ terms: terms.filter((each) => each !== term) })}
              >
                ×
              </button>
            </li>`,
        )}
      </ul>`
    }
  </div>`
}
