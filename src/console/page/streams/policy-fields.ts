/** Retention and failure policy of a stream, as controls. */
import type { VNode } from 'preact'
import { html } from '../html.ts'
import { Field } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal } from '../request.ts'
import type { FailurePolicy, Retention } from './api.ts'

interface Policies {
  readonly retention?: Retention
  readonly failure?: FailurePolicy | null
}

const shown = (value: number | string | null | undefined): string =>
  value === null || value === undefined ? '' : String(value)

export const PolicyFields = ({ retention, failure }: Policies): VNode =>
  html`<div>
    <fieldset>
      <legend>Retention</legend>
      <${Field}
        label="Oldest record, in hours"
        name="hours"
        type="number"
        step="any"
        value=${shown(retention?.max_age_millis && retention.max_age_millis / 3_600_000)}
        hint="Empty: records are kept however old they are."
      />
      <${Field}
        label="Most payload, in MiB"
        name="mebibytes"
        type="number"
        step="any"
        value=${shown(retention?.max_bytes && retention.max_bytes / 1_048_576)}
        hint="Empty: records are kept however much there is."
      />
      <${Field}
        label="Kept for the cursor"
        name="cursor"
        value=${shown(retention?.min_cursor_name)}
        hint="Records from this cursor on are kept."
      />
    </fieldset>
    <fieldset>
      <legend>Failures</legend>
      <${Field}
        label="Attempts"
        name="attempts"
        type="number"
        value=${shown(failure?.max_attempts)}
        hint="Empty: a record that is given back is given out again, without end."
      />
      <${Field}
        label="Then copy it to the stream"
        name="dead"
        value=${shown(failure?.dead_letter_stream)}
        hint="Empty: it is finished without a copy."
      />
      <${Field}
        label="Pause before each, in seconds"
        name="pause"
        type="number"
        step="any"
        value=${shown(failure ? failure.retry_delay_millis / 1000 : null)}
      />
      <label class="check"
        ><input type="checkbox" name="expiry" defaultChecked=${failure?.apply_on_expiry ?? false} /> A lease that runs
        out counts as a failure</label
      >
    </fieldset>
  </div>`

const DURABILITIES = {
  'local-disk': 'the record is on disk',
  memory: 'the record is in memory',
  'local-quorum': 'the record is on most replica directories',
} as const

/** @param value one that the page does not know may stay as it is */
export function DurabilityField({ value = 'local-disk' }: { value?: string }): VNode {
  const titles = { ...(!Object.hasOwn(DURABILITIES, value) && { [value]: value }), ...DURABILITIES }
  return html`<${Field} label="An answer to a publish means" name="durability">
    ${Object.entries(titles).map(([name, title]) => html`<option key=${name} value=${name} selected=${name === value}>${title}</option>`)}
  <//>`
}

const numberOf = (text: string | undefined, times: number): number | null => {
  const number = Number.parseFloat(text ?? '')
  return Number.isFinite(number) ? Math.round(number * times) : null
}

interface Configuration {
  readonly default_durability: string | undefined
  readonly retention: Retention
  readonly failure_policy: FailurePolicy | null
}

/** The body's members, null where a control is empty. @throws Refusal */
export function policyFrom(values: FormValues): Configuration {
  const attempts = numberOf(values['attempts'], 1)
  if (attempts === null && (values['dead'] || values['pause'] || values['expiry']))
    throw new Refusal(400, 'no_attempts', 'Give the number of attempts, or leave the other fields for failures empty.')
  return {
    default_durability: values['durability'],
    retention: {
      max_age_millis: numberOf(values['hours'], 3_600_000),
      max_bytes: numberOf(values['mebibytes'], 1_048_576),
      min_cursor_name: values['cursor']?.trim() || null,
    },
    failure_policy:
      attempts === null
        ? null
        : {
            max_attempts: attempts,
            dead_letter_stream: values['dead']?.trim() || null,
            retry_delay_millis: numberOf(values['pause'], 1000) ?? 0,
            apply_on_expiry: values['expiry'] !== undefined,
          },
  }
}
