/** Everything about one record. A dead letter says where it came from, and can go back there. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { prettyJson } from '../format.ts'
import { html } from '../html.ts'
import { useAction, useLoaded } from '../loading.ts'
import { Bytes, Copy, Dialog, Field, Form, Loading, Problem, When } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal } from '../request.ts'
import { hexDump, redrive, replay, textOf } from './api.ts'
import type { StreamRecord } from './api.ts'

interface DetailProps {
  readonly stream: string
  readonly offset: number
  readonly show: string
  readonly onShow: (show: string) => void
  readonly onClose: () => void
}

const SOURCE = 'x-dead-letter-source-stream'

export function RecordDetail({ stream, offset, show, onShow, onClose }: DetailProps): VNode {
  const { value, problem } = useLoaded(
    async (signal) => (await replay(stream, { start_offset: offset }, 1, signal)).records[0] ?? null,
    [stream, offset],
  )
  return html`<aside class="detail" aria-label=${`Record ${offset}`}>
    <header>
      <h2>Record ${offset}</h2>
      <button type="button" class="quiet" data-key="Escape" aria-label="Close the record" onClick=${onClose}>×</button>
    </header>
    ${problem && html`<${Problem} of=${problem} />`}
    ${
      value === null
        ? problem === null && html`<${Loading} />`
        : value.offset === offset
          ? html`<${Record} stream=${stream} record=${value} show=${show} onShow=${onShow} />`
          : html`<p class="notice">It is not there any more: retention removed it, or it is damaged.</p>`
    }
  </aside>`
}

function Record({
  stream,
  record,
  show,
  onShow,
}: {
  stream: string
  record: StreamRecord
  show: string
  onShow: (show: string) => void
}): VNode {
  const [isRedriving, setRedriving] = useState(false)
  const forms = formsOf(record.payload_hex)
  const form = forms.find(({ name }) => name === show) ?? forms[0]!
  const headers = Object.entries(record.headers)
  const source = record.headers[SOURCE]
  return html`<div>
    ${
      source !== undefined &&
      html`<div class="notice warn">
        <p>
          A dead letter of
          <a href=${`/streams/${encodeURIComponent(source)}?record=${record.headers['x-dead-letter-source-offset']}`}
            >${source} ${record.headers['x-dead-letter-source-offset']}</a
          >: <strong>${record.headers['x-dead-letter-reason'] || 'no reason was given'}</strong>
        </p>
        <button type="button" onClick=${() => setRedriving(true)}>Publish again to ${source}</button>
      </div>`
    }
    <dl class="pairs">
      <div>
        <dt>Message id</dt>
        <dd class="mono">${record.message_id}</dd>
      </div>
      <div>
        <dt>Key</dt>
        <dd class="mono">${record.key_hex === null ? '–' : (textOf(record.key_hex) ?? `0x${record.key_hex}`)}</dd>
      </div>
      <div>
        <dt>Stored</dt>
        <dd><${When} ms=${record.ingest_time_ms} asTime /></dd>
      </div>
      <div>
        <dt>Event time</dt>
        <dd><${When} ms=${record.event_time_ms} asTime /></dd>
      </div>
      <div>
        <dt>Size</dt>
        <dd><${Bytes} of=${record.payload_hex.length / 2} /></dd>
      </div>
    </dl>
    <div class="chips" role="group" aria-label="Show the payload as">
      ${forms.map(({ name, title }) => html`<button key=${name} type="button" aria-pressed=${name === form.name} onClick=${() => onShow(name)}>${title}</button>`)}
      <span class="space"></span><${Copy} text=${form.text} what="payload" />
    </div>
    <pre class="payload" tabindex="0" aria-label="Payload"><code>${form.text}</code></pre>
    ${
      headers.length > 0 &&
      html`<h3>Headers</h3>
        <dl class="pairs">
          ${headers.map(
            ([name, value]) =>
              html`<div key=${name}>
                <dt class="mono">${name}</dt>
                <dd class="mono">${value}</dd>
              </div>`,
          )}
        </dl>`
    }
    ${isRedriving && html`<${Redrive} stream=${stream} offset=${record.offset} source=${source ?? ''} onClose=${() => setRedriving(false)} />`}
  </div>`
}

/** The forms in which the bytes can be shown, the most telling one first. */
function formsOf(hex: string): readonly { name: string; title: string; text: string }[] {
  const text = textOf(hex)
  const asHex = { name: 'hex', title: 'Hex', text: hexDump(hex) }
  if (text === null) return [asHex]
  const asText = { name: 'text', title: 'Text', text }
  try {
    return [{ name: 'json', title: 'JSON', text: prettyJson(text) }, asText, asHex]
  } catch {
    return [asText, asHex]
  }
}

function Redrive({
  stream,
  offset,
  source,
  onClose,
}: {
  stream: string
  offset: number
  source: string
  onClose: () => void
}): VNode {
  const action = useAction()
  const [isDone, setDone] = useState(false)
  const publish = async ({ reason }: FormValues): Promise<void> => {
    const { reply, requestId } = await redrive(stream, { offsets: [offset] }, reason)
    const refused = reply.results[0]?.error
    if (refused) throw new Refusal(409, 'not_redriven', refused.message, '', requestId)
    setDone(true)
  }
  return html`<${Dialog} title=${`Publish again to ${source}`} onClose=${onClose}>
    ${
      isDone
        ? html`<p class="notice good" role="status">
            It is in <a href=${`/streams/${encodeURIComponent(source)}`} onClick=${onClose}>${source}</a> again, and its
            consumers get it like any other record.
          </p>`
        : html`<${Form} action=${action} submit="Publish again" onSubmit=${publish} onCancel=${onClose}>
            <p>
              The record goes back to <strong>${source}</strong> as a new record, without the headers of a dead letter.
              The copy stays here, and cannot be used twice.
            </p>
            <${Field} label="Reason" name="reason" hint="For the audit trail." required autofocus />
          <//>`
    }
  <//>`
}
