/** Uploads into a bucket: how far each is, and what can be done about it. */
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { bytes, exact, exactBytes } from '../format.ts'
import { html } from '../html.ts'
import { Problem } from '../parts.ts'
import { forgetEnded, useUploads } from './uploads.ts'
import type { Upload } from './uploads.ts'

export function UploadList({ bucket, onDone }: { bucket: string; onDone: () => void }): VNode | null {
  const uploads = useUploads().filter((each) => each.bucket === bucket)
  const doneCount = uploads.filter(({ state }) => state === 'done').length
  useEffect(() => {
    if (doneCount > 0) onDone()
  }, [doneCount])
  if (uploads.length === 0) return null
  return html`<section class="uploads" aria-label="Uploads">
    <header class="bar">
      <h2>Uploads</h2>
      <span class="space"></span
      >${uploads.some(({ isActive }) => !isActive) && html`<button type="button" onClick=${forgetEnded}>Clear those that ended</button>`}
    </header>
    <ul>
      ${uploads.map((upload) => html`<${Shown} key=${upload.id} upload=${upload} />`)}
    </ul>
  </section>`
}

const WORDS = {
  waiting: 'waits',
  sending: '',
  paused: 'paused',
  done: 'stored',
  failed: 'failed',
  cancelled: 'cancelled',
} as const

function Shown({ upload }: { upload: Upload }): VNode {
  const { key, file, state, sentBytes, problem, mayStop } = upload
  return html`<li>
    <span class="cut mono">${key}</span>
    <progress
      aria-label=${`Upload of ${key}`}
      max=${Math.max(1, file.size)}
      value=${state === 'done' ? Math.max(1, file.size) : sentBytes}
    ></progress>
    <span class="fine" title=${`${exact(sentBytes)} of ${exactBytes(file.size)}`}
      >${WORDS[state] || `${bytes(sentBytes)} of ${bytes(file.size)}`}</span
    >
    <span class="buttons">
      ${state === 'sending' && mayStop && html`<button type="button" aria-label=${`Pause ${key}`} onClick=${() => upload.pause()}>Pause</button>`}
      ${state === 'failed' && html`<button type="button" aria-label=${`Try ${key} again`} onClick=${() => upload.resume()}>Try again</button>`}
      ${state === 'paused' && html`<button type="button" aria-label=${`Resume ${key}`} onClick=${() => upload.resume()}>Resume</button>`}
      ${mayStop && html`<button type="button" aria-label=${`Cancel ${key}`} onClick=${() => upload.cancel()}>Cancel</button>`}
    </span>
    ${problem && html`<${Problem} of=${problem} title=${state === 'sending' ? 'It is sent again' : undefined} />`}
  </li>`
}
