/** Settings of a stream: how long it keeps records, what it does with failures, and actions that remove records. */
import type { VNode } from 'preact'
import { useLocation } from 'preact-iso/router'
import { useState } from 'preact/hooks'
import { exact } from '../format.ts'
import { html } from '../html.ts'
import { useAction } from '../loading.ts'
import { Field, Form, When } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal, askJson } from '../request.ts'
import { post, redrive, streamPath } from './api.ts'
import type { Stream } from './api.ts'
import { DurabilityField, PolicyFields, policyFrom } from './policy-fields.ts'

interface TabProps {
  readonly stream: Stream
  readonly onChange: () => void
}

export const SettingsTab = ({ stream, onChange }: TabProps): VNode =>
  html`<div class="sections">
    <${Change} stream=${stream} onChange=${onChange} />
    <${RedriveAll} stream=${stream} onChange=${onChange} />
    <${Purge} stream=${stream} onChange=${onChange} />
    <${Delete} stream=${stream} />
  </div>`

const Done = ({ text }: { text: string }): VNode | null =>
  text === '' ? null : html`<p class="notice good" role="status">${text}</p>`

function Change({ stream, onChange }: TabProps): VNode {
  const action = useAction()
  const [done, setDone] = useState('')
  const change = async (values: FormValues): Promise<void> => {
    setDone('')
    await askJson('broker', `${streamPath(stream.stream)}${values['force'] ? '?force=true' : ''}`, {
      method: 'PATCH',
      body: policyFrom(values),
    })
    setDone('Changed.')
    onChange()
  }
  return html`<section aria-label="Configuration">
    <h2>Configuration</h2>
    <p class="fine">Created <${When} ms=${stream.created_at_ms} />.</p>
    <${Form} action=${action} submit="Save" onSubmit=${change}>
      <${DurabilityField} value=${stream.default_durability} />
      <${PolicyFields} retention=${stream.retention} failure=${stream.failure_policy} />
      <label class="check"><input type="checkbox" name="force" /> Even if a cursor keeps records from retention</label>
      <${Done} text=${done} />
    <//>
  </section>`
}

function RedriveAll({ stream, onChange }: TabProps): VNode {
  const action = useAction()
  const [done, setDone] = useState('')
  const publish = async ({ reason }: FormValues): Promise<void> => {
    let [again, refused, request] = [0, 0, '']
    for (let start = stream.first_offset; ;) {
      const { reply: page, requestId } = await redrive(stream.stream, { start_offset: start }, reason)
      const notAgain = page.results.filter(({ error }) => error !== undefined).length
      if (refused === 0 && notAgain > 0) request = `, request ${requestId}`
      again += page.redriven_count
      refused += notAgain
      setDone(
        `${exact(again)} are in their source again${refused > 0 ? `, ${exact(refused)} are not: they were used before, or their source is gone${request}` : ''}.`,
      )
      if (page.end_of_stream || page.next_offset <= start) break
      start = page.next_offset
    }
    onChange()
  }
  return html`<section aria-label="Dead letters">
    <h2>Dead letters</h2>
    <p>
      Every dead letter in this stream goes back to the stream that it came from, once. What is no dead letter stays as
      it is.
    </p>
    <${Form} action=${action} submit="Publish all again" onSubmit=${publish}>
      <${Field} label="Reason" name="reason" hint="For the audit trail." required />
      <${Done} text=${done} />
    <//>
  </section>`
}

function Purge({ stream, onChange }: TabProps): VNode {
  const action = useAction()
  const [done, setDone] = useState('')
  const purge = async ({ offset, reason, force }: FormValues): Promise<void> => {
    await post(`${streamPath(stream.stream)}/purge${force ? '?force=true' : ''}`, {
      offset: Number(offset),
      ...(reason && { reason }),
    })
    setDone(`The records below ${offset} are gone.`)
    onChange()
  }
  return html`<section aria-label="Purge">
    <h2>Purge</h2>
    <p>Removes the records below an offset. They do not come back.</p>
    <${Form} action=${action} submit="Purge" isDangerous onSubmit=${purge}>
      <${Field} label="Below the offset" name="offset" type="number" value=${String(stream.next_offset)} required />
      <${Field} label="Reason" name="reason" />
      <label class="check"><input type="checkbox" name="force" /> Even if a cursor keeps them from retention</label>
      <${Done} text=${done} />
    <//>
  </section>`
}

function Delete({ stream: { stream } }: { stream: Stream }): VNode {
  const action = useAction()
  const { route } = useLocation()
  const remove = async ({ name, force }: FormValues): Promise<void> => {
    if (name !== stream) throw new Refusal(400, 'not_confirmed', `Type ${stream} to delete it.`)
    await askJson('broker', `${streamPath(stream)}${force ? '?force=true' : ''}`, { method: 'DELETE' })
    route('/streams')
  }
  return html`<section aria-label="Delete">
    <h2>Delete</h2>
    <p>The stream is gone at once, with its records, groups and cursors.</p>
    <${Form} action=${action} submit="Delete stream" isDangerous onSubmit=${remove}>
      <${Field} label=${`Type ${stream} to confirm`} name="name" required />
      <label class="check"
        ><input type="checkbox" name="force" /> Even if another stream or replication still needs it</label
      >
    <//>
  </section>`
}
