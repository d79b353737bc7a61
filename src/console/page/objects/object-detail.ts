/** Everything about one object, and what can be done with it. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { html } from '../html.ts'
import { useAction, useLoaded } from '../loading.ts'
import { Bytes, Command, Dialog, Field, Form, Loading, Problem, When } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal } from '../request.ts'
import { session } from '../session.ts'
import { DeleteMany } from './delete-objects.ts'
import { Preview } from './preview.ts'
import { downloadAddress, linkTo, putTags, s3, tagsOf } from './s3.ts'
import type { Tags } from './s3.ts'

interface DetailProps {
  readonly bucket: string
  readonly name: string
  readonly onClose: () => void
  readonly onDeleted: () => void
}

interface About {
  readonly headers: Headers
  readonly tags: Tags
}

async function load(bucket: string, key: string, signal: AbortSignal): Promise<About> {
  const headers = { 'x-amz-checksum-mode': 'ENABLED' }
  const [head, tags] = await Promise.all([
    s3({ method: 'HEAD', bucket, key, headers, signal }),
    tagsOf(bucket, key, signal),
  ])
  return { headers: head.headers, tags }
}

export function ObjectDetail({ bucket, name, onClose, onDeleted }: DetailProps): VNode {
  const { value, problem, reload } = useLoaded((signal) => load(bucket, name, signal), [bucket, name])
  const [doing, setDoing] = useState<'delete' | 'link' | 'tags' | null>(null)
  const download = useAction()
  const close = (): void => setDoing(null)
  const save = async (): Promise<void> => {
    const link = document.createElement('a')
    link.href = await downloadAddress(bucket, name)
    link.download = name.slice(name.lastIndexOf('/') + 1) || 'object'
    link.click()
  }
  return html`<aside class="detail" aria-label="Object">
    <header>
      <h2 class="mono">${name}</h2>
      <button type="button" class="quiet" data-key="Escape" aria-label="Close the object" onClick=${onClose}>×</button>
    </header>
    <p class="buttons">
      <button type="button" onClick=${() => download.run(save)}>Download</button>
      <button type="button" onClick=${() => setDoing('link')}>Link</button>
      <button type="button" onClick=${() => setDoing('tags')}>Tags</button>
      <button type="button" class="danger" onClick=${() => setDoing('delete')}>Delete</button>
    </p>
    ${download.problem && html`<${Problem} of=${download.problem} />`}
    ${problem && html`<${Problem} of=${problem} title=${problem.status === 404 ? 'There is no such object' : undefined} />`}
    ${value === null ? problem === null && html`<${Loading} />` : html`<${Facts} bucket=${bucket} name=${name} about=${value} />`}
    ${doing === 'delete' && html`<${DeleteMany} bucket=${bucket} keys=${[name]} onClose=${close} onDeleted=${onDeleted} />`}
    ${doing === 'link' && html`<${LinkDialog} bucket=${bucket} name=${name} onClose=${close} />`}
    ${doing === 'tags' && html`<${EditTags} bucket=${bucket} name=${name} tags=${value?.tags ?? []} onClose=${close} onChange=${reload} />`}
  </aside>`
}

const SHOWN_HEADERS = [
  'content-type',
  'content-encoding',
  'content-language',
  'content-disposition',
  'cache-control',
  'expires',
  'x-amz-storage-class',
  'x-amz-server-side-encryption',
]
const OWN_METADATA = /^x-(?:amz|obj)-meta-/
const CHECKSUM = /^x-(?:amz|obj)-checksum-(?!type)/

function Facts({ bucket, name, about: { headers, tags } }: { bucket: string; name: string; about: About }): VNode {
  const size = Number(headers.get('content-length'))
  const entries = [...headers]
  const named = (pattern: RegExp): Map<string, string> =>
    new Map(
      entries.filter(([header]) => pattern.test(header)).map(([header, value]) => [header.replace(pattern, ''), value]),
    )
  const checksums = new Map(
    entries
      .filter(([header]) => CHECKSUM.test(header))
      .map(([header, value]) => [header.replace(/^x-(?:amz|obj)-checksum-/, ''), value]),
  )
  return html`<div>
    <dl class="pairs">
      <div>
        <dt>Size</dt>
        <dd><${Bytes} of=${size} /></dd>
      </div>
      <div>
        <dt>Modified</dt>
        <dd><${When} ms=${Date.parse(headers.get('last-modified') ?? '')} asTime /></dd>
      </div>
      <div>
        <dt>ETag</dt>
        <dd class="mono">${headers.get('etag')}</dd>
      </div>
      ${[...checksums].map(
        ([algorithm, value]) =>
          html`<div key=${algorithm}>
            <dt>${algorithm.toUpperCase()}</dt>
            <dd class="mono">${value}</dd>
          </div>`,
      )}
      ${SHOWN_HEADERS.filter((header) => headers.has(header) && headers.get(header) !== 'no-store').map(
        (header) =>
          html`<div key=${header}>
            <dt>${header}</dt>
            <dd class="mono">${headers.get(header)}</dd>
          </div>`,
      )}
    </dl>
    <${Pairs} title="Metadata" pairs=${[...named(OWN_METADATA)]} />
    <${Pairs} title="Tags" pairs=${tags} />
    <${Preview}
      bucket=${bucket}
      name=${name}
      size=${size}
      type=${headers.get('content-type') ?? ''}
      encoding=${headers.get('content-encoding') ?? ''}
    />
  </div>`
}

const Pairs = ({ title, pairs }: { title: string; pairs: Tags }): VNode | null =>
  pairs.length === 0
    ? null
    : html`<div>
        <h3>${title}</h3>
        <dl class="pairs">
          ${pairs.map(
            ([name, value]) =>
              html`<div key=${name}>
                <dt class="mono">${name}</dt>
                <dd class="mono">${value}</dd>
              </div>`,
          )}
        </dl>
      </div>`

const HOUR_SECONDS = 3600

function LinkDialog({ bucket, name, onClose }: { bucket: string; name: string; onClose: () => void }): VNode {
  const action = useAction()
  const [made, setMade] = useState<{ address: string; untilMs: number } | null>(null)
  const isSigned = session.credentialsOf('objectstore')?.kind === 'access-key'
  const make = async ({ hours }: FormValues): Promise<void> => {
    const seconds = Math.round(Number(hours ?? 1) * HOUR_SECONDS)
    const untilMs = Date.now() + seconds * 1000
    setMade({ address: await linkTo(bucket, name, seconds), untilMs })
  }
  return html`<${Dialog} title="Link to the object" onClose=${onClose}>
    <${Form} action=${action} submit="Make the link" onSubmit=${make} onCancel=${onClose}>
      <p>
        ${isSigned ? 'Anyone with the link may read this object until it expires. It is signed here.' : 'The object store asks for no credentials: anyone who reaches it may read the object, at any time.'}
      </p>
      ${
        isSigned &&
        html`<${Field} label="Expires" name="hours"
          ><option value="1">in an hour</option>
          <option value="24">in a day</option>
          <option value="168">in 7 days</option><//
        >`
      }
    <//>
    ${made !== null && html`<${Command} text=${made.address} />`}
    ${made !== null && isSigned && html`<p>It works until <${When} ms=${made.untilMs} asTime />.</p>`}
  <//>`
}

interface EditProps {
  readonly bucket: string
  readonly name: string
  readonly tags: Tags
  readonly onClose: () => void
  readonly onChange: () => void
}

function EditTags({ bucket, name, tags, onClose, onChange }: EditProps): VNode {
  const action = useAction()
  const save = async ({ tags: text = '' }: FormValues): Promise<void> => {
    const lines = text.split('\n').filter((line) => line.trim() !== '')
    const next = lines.map((line): readonly [string, string] => {
      const at = line.indexOf('=')
      if (at < 1) throw new Refusal(400, 'not_a_tag', `“${line}” is no tag: write name=value`)
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    })
    await putTags(bucket, name, next)
    onClose()
    onChange()
  }
  return html`<${Dialog} title="Tags of the object" onClose=${onClose}>
    <${Form} action=${action} submit="Save" onSubmit=${save} onCancel=${onClose}>
      <${Field}
        label="Tags"
        name="tags"
        rows=${6}
        value=${tags.map(([tag, value]) => `${tag}=${value}`).join('\n')}
        hint="One on a line, as name=value; 10 at most."
        autofocus
      />
    <//>
  <//>`
}
