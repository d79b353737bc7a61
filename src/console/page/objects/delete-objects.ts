/** Deleting objects, one or many, after a look at what they are. */
import type { VNode } from 'preact'
import { exact } from '../format.ts'
import { html } from '../html.ts'
import { useAction } from '../loading.ts'
import { Dialog, Field, Form } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal } from '../request.ts'
import { deleteObjects } from './s3.ts'

interface DeleteProps {
  readonly bucket: string
  readonly keys: readonly string[]
  readonly onClose: () => void
  readonly onDeleted: () => void
}

export function DeleteMany({ bucket, keys, onClose, onDeleted }: DeleteProps): VNode {
  const action = useAction()
  const remove = async ({ count }: FormValues): Promise<void> => {
    if (keys.length > 1 && count?.trim() !== String(keys.length))
      throw new Refusal(400, 'not_confirmed', `Type ${keys.length} to delete them.`)
    const refused = await deleteObjects(bucket, keys)
    const [first] = refused
    if (first !== undefined) {
      const message = `${exact(refused.length)} were not deleted; the first: ${first.key}: ${first.message}`
      throw new Refusal(409, 'not_deleted', message, '', first.requestId)
    }
    onClose()
    onDeleted()
  }
  return html`<${Dialog}
    title=${keys.length === 1 ? 'Delete the object' : `Delete ${exact(keys.length)} objects`}
    onClose=${onClose}
  >
    <${Form} action=${action} submit="Delete" isDangerous onSubmit=${remove} onCancel=${onClose}>
      <p>They are gone at once, and do not come back.</p>
      <ul class="names">
        ${keys.slice(0, 8).map((key) => html`<li key=${key} class="mono">${key}</li>`)}${keys.length > 8 && html`<li>and ${exact(keys.length - 8)} more</li>`}
      </ul>
      ${keys.length > 1 && html`<${Field} label=${`Type ${keys.length} to confirm`} name="count" required autofocus />`}
    <//>
  <//>`
}
