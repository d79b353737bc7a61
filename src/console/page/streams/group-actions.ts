/** What can be done to a group, its leases and its cursors. Each says what it does before it is done. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { html } from '../html.ts'
import { useAction } from '../loading.ts'
import { Dialog, Field, Form } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal, askJson } from '../request.ts'
import { groupPath, post, streamPath } from './api.ts'
import type { Cursor, Lease } from './api.ts'

interface ActionProps {
  readonly stream: string
  readonly group: string
  readonly onDone: () => void
  readonly onClose: () => void
}

interface AskedProps {
  readonly title: string
  readonly submit: string
  readonly isDangerous?: boolean
  readonly children?: unknown
  readonly run: (values: FormValues) => Promise<unknown>
  readonly onDone: () => void
  readonly onClose: () => void
}

/** A dialog that does one thing, and closes when it is done. */
function Asked({ title, submit, isDangerous = false, children, run, onDone, onClose }: AskedProps): VNode {
  const action = useAction()
  const send = async (values: FormValues): Promise<void> => {
    await run(values)
    onClose()
    onDone()
  }
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <${Form} action=${action} submit=${submit} isDangerous=${isDangerous} onSubmit=${send} onCancel=${onClose}
      >${children}<//
    >
  <//>`
}

const deliveryPath = (stream: string, { subscription_id: subscription, delivery_id: delivery }: Lease): string =>
  `${streamPath(stream)}/subscriptions/${encodeURIComponent(subscription)}/deliveries/${encodeURIComponent(delivery)}`

export const ReleaseLease = ({ stream, lease, onDone, onClose }: ActionProps & { lease: Lease }): VNode =>
  html`<${Asked}
    title=${`Release the record at ${lease.offset}`}
    submit="Release"
    onDone=${onDone}
    onClose=${onClose}
    run=${({ reason }: FormValues) => post(`${deliveryPath(stream, lease)}/retry`, { reason: reason || 'released by hand', delay_millis: 0 })}
  >
    <p>
      The consumer that holds it loses the lease, and the record is given out again at once. The attempt counts. The
      failure policy is not asked.
    </p>
    <${Field} label="Reason" name="reason" autofocus />
  <//>`

export const DeadLetterLease = ({
  stream,
  lease,
  to,
  onDone,
  onClose,
}: ActionProps & { lease: Lease; to: string }): VNode =>
  html`<${Asked}
    title=${`Dead-letter the record at ${lease.offset}`}
    submit="Dead-letter"
    isDangerous
    onDone=${onDone}
    onClose=${onClose}
    run=${({ reason, dead }: FormValues) => post(`${deliveryPath(stream, lease)}/dead-letter`, { dead_letter_stream: dead, reason })}
  >
    <p>The record is copied to another stream, and finished for this group.</p>
    <${Field} label="To the stream" name="dead" value=${to} required autofocus />
    <${Field} label="Reason" name="reason" required />
  <//>`

const TARGETS = {
  offset: 'an offset',
  time: 'the first record stored since a time',
  latest: 'the end: nothing is given out again',
} as const

interface SeekProps extends ActionProps {
  /** Offset of the first record that the group has not finished. */
  readonly progress: number
  /** When that was stored; null: the group has finished all. */
  readonly progressMs: number | null
  readonly end: number
}

export function SeekGroup({ stream, group, progress, progressMs, end, onDone, onClose }: SeekProps): VNode {
  const [target, setTarget] = useState<keyof typeof TARGETS>('offset')
  /** Where the group stands, in the words of each control. */
  const [here] = useState({
    offset: {
      label: 'Offset',
      type: 'number',
      value: String(progress),
      hint:
        progressMs === null
          ? 'The group stands here: it has finished all.'
          : 'The group stands here: it is the first record that it has not finished.',
    },
    time: {
      label: 'Time',
      type: 'datetime-local',
      step: '0.001',
      value: localTime(progressMs ?? Date.now()),
      hint:
        progressMs === null
          ? 'Now: the group has finished all.'
          : 'When the first record was stored that the group has not finished.',
    },
  })
  const seek = ({ offset, time, reason }: FormValues): Promise<unknown> =>
    post(`${groupPath(stream, group)}/seek`, {
      ...(target === 'time'
        ? { ingest_time_ms: timeOf(time) }
        : { offset: target === 'latest' ? end : Number(offset) }),
      reason,
    })
  return html`<${Asked}
    title=${`Seek ${group}`}
    submit="Seek"
    isDangerous
    run=${seek}
    onDone=${onDone}
    onClose=${onClose}
  >
    <p>
      The group gets every record from there on again, finished or not. Leases on these records end; records below stay
      as they are.
    </p>
    <${Field} label="Seek to" name="target" value=${target} onInput=${setTarget}>
      ${Object.entries(TARGETS).map(([name, title]) => html`<option key=${name} value=${name}>${title}</option>`)}
    <//>
    ${
      target === 'latest'
        ? html`<p>
            The end is at <strong>${end}</strong> now. Records below it that are not finished wait for a claim as
            before.
          </p>`
        : html`<${Field} key=${target} name=${target} ...${here[target]} required />`
    }
    <${Field} label="Reason" name="reason" hint="For the audit trail." required />
  <//>`
}

/** As controls of browsers have it: the time of the visitor's zone, without the zone. */
function localTime(ms: number): string {
  const offsetMs = new Date(ms).getTimezoneOffset() * 60_000
  return new Date(ms - offsetMs).toISOString().slice(0, -1)
}

function timeOf(text: string | undefined): number {
  const ms = Date.parse(text ?? '')
  if (!Number.isFinite(ms)) throw new Refusal(400, 'no_time', 'Give a day and a time.')
  return ms
}

export const DeleteGroup = ({ stream, group, onDone, onClose }: ActionProps): VNode =>
  html`<${Asked}
    title=${`Delete ${group}`}
    submit="Delete group"
    isDangerous
    onDone=${onDone}
    onClose=${onClose}
    run=${({ force }: FormValues) => askJson('broker', `${groupPath(stream, group)}${force ? '?force=true' : ''}`, { method: 'DELETE' })}
  >
    <p>
      Its leases and cursors are gone at once. A group that has the name later is new, and begins at the first record.
    </p>
    <label class="check"><input type="checkbox" name="force" /> Even if retention waits for one of its cursors</label>
  <//>`

export const CommitCursor = ({ stream, group, end, onDone, onClose }: ActionProps & { end: number }): VNode =>
  html`<${Asked}
    title="Commit a cursor"
    submit="Commit"
    onDone=${onDone}
    onClose=${onClose}
    run=${({ name, offset }: FormValues) => askJson('broker', cursorPath(stream, group, name ?? ''), { method: 'PUT', body: { offset: Number(offset) } })}
  >
    <p>A cursor is an offset that the broker keeps under a name. Committing moves it forward; to go back, rewind it.</p>
    <${Field} label="Name" name="name" required autofocus />
    <${Field} label="Offset" name="offset" type="number" value=${String(end)} required />
  <//>`

export const RewindCursor = ({ stream, group, cursor, onDone, onClose }: ActionProps & { cursor: Cursor }): VNode =>
  html`<${Asked}
    title=${`Rewind ${cursor.cursor}`}
    submit="Rewind"
    isDangerous
    onDone=${onDone}
    onClose=${onClose}
    run=${({ offset, reason }: FormValues) => post(`${cursorPath(stream, group, cursor.cursor)}/rewind`, { offset: Number(offset), reason })}
  >
    <p>It stands at ${cursor.offset}. Consumers that read by it go on from the new offset.</p>
    <${Field} label="Offset" name="offset" type="number" value=${String(cursor.offset)} required autofocus />
    <${Field} label="Reason" name="reason" hint="For the audit trail." required />
  <//>`

export const DeleteCursor = ({ stream, group, cursor, onDone, onClose }: ActionProps & { cursor: Cursor }): VNode =>
  html`<${Asked}
    title=${`Delete the cursor ${cursor.cursor}`}
    submit="Delete cursor"
    isDangerous
    onDone=${onDone}
    onClose=${onClose}
    run=${({ force }: FormValues) => askJson('broker', `${cursorPath(stream, group, cursor.cursor)}${force ? '?force=true' : ''}`, { method: 'DELETE' })}
  >
    <p>It stands at ${cursor.offset}. The broker forgets this offset.</p>
    <label class="check"><input type="checkbox" name="force" /> Even if retention waits for it</label>
  <//>`

const cursorPath = (stream: string, group: string, cursor: string): string =>
  `${groupPath(stream, group)}/cursors/${encodeURIComponent(cursor)}`
