/** Multipart uploads that are neither completed nor aborted: their parts take room until a visitor, or the store, aborts them. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { exact } from '../format.ts'
import { html } from '../html.ts'
import { useAction, useLoaded } from '../loading.ts'
import { Dialog, Empty, Form, Loading, Problem, When } from '../parts.ts'
import { abortUpload, listUploads } from './s3.ts'
import type { OpenUpload } from './s3.ts'

const REFRESH_MS = 10_000

export function OpenUploads({ bucket }: { bucket: string }): VNode {
  const { value, problem, reload } = useLoaded((signal) => listUploads(bucket, signal), [bucket], REFRESH_MS)
  const [aborting, setAborting] = useState<readonly OpenUpload[] | null>(null)
  return html`<section aria-label="Open uploads">
    <div class="bar">
      <p>
        Parts take disk space until their upload is completed or aborted. Uploads that are still being sent are listed,
        too.
      </p>
      <span class="space"></span>
      <button type="button" data-key="r" onClick=${reload}>Reload</button>
      ${
        value !== null &&
        value.uploads.length > 1 &&
        html`<button type="button" class="danger" onClick=${() => setAborting(value.uploads)}>
          Abort all ${exact(value.uploads.length)}
        </button>`
      }
    </div>
    ${problem && html`<${Problem} of=${problem} />`}
    ${
      value === null
        ? problem === null && html`<${Loading} />`
        : value.uploads.length === 0
          ? html`<${Empty} title="No upload is open">Each one was completed or aborted.<//>`
          : html`<${Table} uploads=${value.uploads} onAbort=${(one: OpenUpload) => setAborting([one])} />`
    }
    ${value?.isAll === false && html`<p class="fine">These are the first ${exact(value.uploads.length)}.</p>`}
    ${
      aborting !== null &&
      html`<${Abort} bucket=${bucket} uploads=${aborting} onClose=${() => setAborting(null)} onAborted=${reload} />`
    }
  </section>`
}

const Table = ({
  uploads,
  onAbort,
}: {
  uploads: readonly OpenUpload[]
  onAbort: (upload: OpenUpload) => void
}): VNode =>
  html`<div class="scroll" tabindex="0" role="group" aria-label="Open uploads by key">
    <table>
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">Begun</th>
          <th scope="col"><span class="hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        ${uploads.map(
          (upload) =>
            html`<tr key=${upload.uploadId}>
              <th scope="row" class="mono">${upload.key}</th>
              <td><${When} ms=${upload.begunMs} /></td>
              <td class="right">
                <button
                  type="button"
                  class="danger"
                  aria-label=${`Abort the upload of ${upload.key}`}
                  onClick=${() => onAbort(upload)}
                >
                  Abort
                </button>
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`

interface AbortProps {
  readonly bucket: string
  readonly uploads: readonly OpenUpload[]
  readonly onClose: () => void
  readonly onAborted: () => void
}

function Abort({ bucket, uploads, onClose, onAborted }: AbortProps): VNode {
  const action = useAction()
  const [first] = uploads
  const abort = async (): Promise<void> => {
    try {
      for (const { key, uploadId } of uploads) await abortUpload(bucket, key, uploadId)
      onClose()
    } finally {
      onAborted()
    }
  }
  return html`<${Dialog}
    title=${uploads.length === 1 ? 'Abort the upload' : `Abort ${exact(uploads.length)} uploads`}
    onClose=${onClose}
  >
    <${Form} action=${action} submit="Abort" isDangerous onSubmit=${abort} onCancel=${onClose}>
      <p>
        The parts of ${uploads.length === 1 ? html`<code>${first!.key}</code>` : 'these uploads'} are removed. A client
        that still sends is refused.
      </p>
    <//>
  <//>`
}
