/** All buckets. */
import type { FunctionComponent, VNode } from 'preact'
import { useLocation } from 'preact-iso/router'
import { useState } from 'preact/hooks'
import { Gate } from '../account.ts'
import { curlCommand } from '../commands.ts'
import { exact } from '../format.ts'
import { html } from '../html.ts'
import { useAction, useLoaded } from '../loading.ts'
import { parseMetrics } from '../overview/metrics.ts'
import { Bytes, Count, Dialog, Empty, Field, Form, Loading, Problem, When, link } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal, askText } from '../request.ts'
import { listBuckets, s3 } from './s3.ts'

const REFRESH_MS = 10_000

export const BucketsPage = (): VNode => html`<${Gate} service="objectstore"><${Buckets} /><//>`

function Buckets(): VNode {
  const { query, route } = useLocation()
  const filter = query['q'] ?? ''
  const [creating, setCreating] = useState(false)
  const [deleting, setDeleting] = useState<string | null>(null)
  const { value, problem, reload } = useLoaded(listBuckets, [], REFRESH_MS)
  const { value: usage } = useLoaded(bucketUsage, [], REFRESH_MS)
  const shown = (value ?? []).filter(({ name }) => name.includes(filter.toLowerCase()))
  return html`<div>
    <header class="bar">
      <h1>Buckets ${value && html`<span class="badge">${exact(value.length)}</span>`}</h1>
      <span class="space"></span>
      <input
        type="search"
        data-key="/"
        aria-label="Filter buckets by name"
        placeholder="Filter by name"
        value=${filter}
        onInput=${(event: { currentTarget: HTMLInputElement }) => route(link('/objects', { q: event.currentTarget.value }), true)}
      />
      <button type="button" data-key="r" onClick=${reload}>Reload</button>
      <button type="button" class="primary" data-key="n" onClick=${() => setCreating(true)}>Create bucket</button>
    </header>
    ${problem && html`<${Problem} of=${problem} />`}
    ${
      value === null
        ? problem === null && html`<${Loading} />`
        : value.length === 0
          ? html`<${Empty} title="No bucket yet" command=${curlCommand('objectstore', '/photos', { method: 'PUT' })}
              >Objects are kept in buckets.<//
            >`
          : html`<div class="scroll" tabindex="0" role="group" aria-label="Buckets">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Bucket</th>
                    <th scope="col" class="right">Objects</th>
                    <th scope="col" class="right">Size</th>
                    <th scope="col">Created</th>
                    <th scope="col"><span class="hidden">Actions</span></th>
                  </tr>
                </thead>
                <tbody>
                  ${shown.map(
                    ({ name, createdMs }) =>
                      html`<tr key=${name}>
                        <th scope="row"><a href=${`/objects/${encodeURIComponent(name)}`}>${name}</a></th>
                        <td class="right"><${Known} of=${usage?.objects.get(name)} as=${Count} /></td>
                        <td class="right"><${Known} of=${usage?.bytes.get(name)} as=${Bytes} /></td>
                        <td><${When} ms=${createdMs} /></td>
                        <td class="right">
                          <button
                            type="button"
                            class="danger"
                            aria-label=${`Delete the bucket ${name}`}
                            onClick=${() => setDeleting(name)}
                          >
                            Delete
                          </button>
                        </td>
                      </tr>`,
                  )}
                </tbody>
              </table>
            </div>`
    }
    ${creating && html`<${Create} onClose=${() => setCreating(false)} />`}
    ${deleting !== null && html`<${Delete} bucket=${deleting} onClose=${() => setDeleting(null)} onDeleted=${reload} />`}
  </div>`
}

/** The store counts a bounded number of buckets, so that a number may be unknown. */
const Known = ({ of, as }: { of: number | undefined; as: FunctionComponent<{ of: number }> }): VNode =>
  of === undefined ? html`<span class="fine">–</span>` : html`<${as} of=${of} />`

const USAGE = { objects: 'objstore_bucket_objects', bytes: 'objstore_bucket_bytes' } as const

async function bucketUsage(signal: AbortSignal): Promise<Record<keyof typeof USAGE, ReadonlyMap<string, number>>> {
  const text = await askText('objectstore', '/v1/metrics', signal)
  const sample = parseMetrics(text, Date.now(), (name) => name === USAGE.objects || name === USAGE.bytes)
  return { objects: sample.byLabel(USAGE.objects), bytes: sample.byLabel(USAGE.bytes) }
}

function Create({ onClose }: { onClose: () => void }): VNode {
  const action = useAction()
  const { route } = useLocation()
  const create = async (values: FormValues): Promise<void> => {
    const bucket = (values['bucket'] ?? '').trim()
    await s3({ method: 'PUT', bucket })
    route(`/objects/${encodeURIComponent(bucket)}`)
  }
  return html`<${Dialog} title="Create a bucket" onClose=${onClose}>
    <${Form} action=${action} submit="Create bucket" onSubmit=${create} onCancel=${onClose}>
      <${Field}
        label="Name"
        name="bucket"
        hint="3 to 63 lower-case letters, digits, dots and hyphens."
        required
        autofocus
      />
    <//>
  <//>`
}

function Delete({ bucket, onClose, onDeleted }: { bucket: string; onClose: () => void; onDeleted: () => void }): VNode {
  const action = useAction()
  const remove = async ({ name }: FormValues): Promise<void> => {
    if (name !== bucket) throw new Refusal(400, 'not_confirmed', `Type ${bucket} to delete it.`)
    await s3({ method: 'DELETE', bucket })
    onClose()
    onDeleted()
  }
  return html`<${Dialog} title=${`Delete ${bucket}`} onClose=${onClose}>
    <${Form} action=${action} submit="Delete bucket" isDangerous onSubmit=${remove} onCancel=${onClose}>
      <p>Only a bucket without objects can be deleted. Uploads under way go with it.</p>
      <${Field} label=${`Type ${bucket} to confirm`} name="name" required autofocus />
    <//>
  <//>`
}
