/** Publishing one record by hand. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { html } from '../html.ts'
import { useAction } from '../loading.ts'
import { Dialog, Field, Form } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal } from '../request.ts'
import { post, streamPath } from './api.ts'

interface PublishProps {
  readonly stream: string
  readonly onClose: () => void
  readonly onPublished: () => void
}

export function Publish({ stream, onClose, onPublished }: PublishProps): VNode {
  const action = useAction()
  const [published, setPublished] = useState<number | null>(null)
  const publish = async (values: FormValues): Promise<void> => {
    setPublished(null)
    const { offset } = await post<{ offset: number }>(`${streamPath(stream)}/records`, {
      message_id: values['id']?.trim() || newId(),
      ...payloadFrom(values),
      ...(values['key'] && { key: values['key'] }),
      headers: headersFrom(values['headers'] ?? ''),
    })
    setPublished(offset)
    onPublished()
  }
  return html`<${Dialog} title=${`Publish to ${stream}`} onClose=${onClose}>
    <${Form} action=${action} submit="Publish" onSubmit=${publish} onCancel=${onClose}>
      <${Field} label="Payload" name="payload" rows=${7} autofocus />
      <${Field} label="The payload is" name="form"
        ><option value="text">text</option>
        <option value="json">JSON</option>
        <option value="hex">bytes in hexadecimal digits</option><//
      >
      <${Field} label="Key" name="key" />
      <${Field} label="Message id" name="id" hint="Empty: a new one." />
      <${Field} label="Headers" name="headers" rows=${2} hint="One on a line, as name: value." />
      ${published !== null && html`<p class="notice good" role="status">Stored at offset <strong>${published}</strong>.</p>`}
    <//>
  <//>`
}

/** Without `crypto.randomUUID`, which pages of other machines do not have. */
const newId = (): string =>
  `console-${Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('')}`

function payloadFrom({ payload = '', form }: FormValues): object {
  if (form === 'hex') return { payload_hex: payload.replaceAll(/\s+/g, '').toLowerCase() }
  if (form === 'json') {
    try {
      JSON.parse(payload)
    } catch (error) {
      throw new Refusal(400, 'not_json', `The payload is no JSON: ${String(error)}`)
    }
  }
  return { payload }
}

function headersFrom(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(':')
      if (at < 1) throw new Refusal(400, 'not_a_header', `“${line.trim()}” is no header: write name: value`)
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    }),
  )
}
