/** The objects of a bucket, folder by folder. A folder is what keys have in common up to a slash. Pages are loaded when their rows come into sight. */
import type { VNode } from 'preact'
import { useLocation } from 'preact-iso/router'
import { useEffect, useRef, useState } from 'preact/hooks'
import { curlCommand } from '../commands.ts'
import { exact } from '../format.ts'
import { html } from '../html.ts'
import { againLater, useAction } from '../loading.ts'
import { Bytes, Empty, Loading, Problem, When, link } from '../parts.ts'
import { asRefusal } from '../request.ts'
import type { Refusal } from '../request.ts'
import { StepKeys } from '../steps.ts'
import { VirtualList } from '../virtual-list.ts'
import { DeleteMany } from './delete-objects.ts'
import { chosenFiles, droppedFiles } from './dropped.ts'
import { ObjectDetail } from './object-detail.ts'
import { listObjects } from './s3.ts'
import type { ListedObject } from './s3.ts'
import { UploadList } from './upload-list.ts'
import { startUploads } from './uploads.ts'

const ROW_PIXELS = 36

interface Rows {
  readonly folders: readonly string[]
  readonly objects: readonly ListedObject[]
  readonly token: string | null
  readonly isLoaded: boolean
}

const NOTHING: Rows = { folders: [], objects: [], token: null, isLoaded: false }

export function Browser({ bucket }: { bucket: string }): VNode {
  const { query, route } = useLocation()
  const { prefix = '', q: search = '', key: selected } = query
  const path = `/objects/${encodeURIComponent(bucket)}`
  const { rows, problem, more, reload } = useListing(bucket, `${prefix}${search}`)
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set())
  const [isDeleting, setDeleting] = useState(false)
  const [isOver, setOver] = useState(false)
  const chooser = useRef<HTMLInputElement>(null)
  const { folders, objects, token, isLoaded } = rows
  const go = (changes: Record<string, string | null>): void => route(link(path, { ...query, ...changes }))
  const mark = (key: string): void =>
    setMarked((before) =>
      before.has(key) ? new Set([...before].filter((each) => each !== key)) : new Set([...before, key]),
    )
  const dropping = useAction()
  const step = (by: number): void => {
    const next = objects[objects.findIndex(({ key }) => key === selected) + by]
    if (next) go({ key: next.key })
  }
  useEffect(() => setMarked(new Set()), [prefix, search])

  const drop = (event: DragEvent): void => {
    event.preventDefault()
    setOver(false)
    if (event.dataTransfer === null) return
    const files = droppedFiles(event.dataTransfer)
    dropping.run(async () => startUploads(bucket, prefix, await files))
  }
  return html`<div
    class=${`split ${selected === undefined ? '' : 'open'} ${isOver ? 'over' : ''}`}
    onDragOver=${(event: DragEvent) => {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      setOver(true)
    }}
    onDragLeave=${() => setOver(false)}
    onDrop=${drop}
  >
    <section aria-label="Objects">
      <div class="bar">
        <${Crumbs} path=${path} prefix=${prefix} />
        <span class="space"></span>
        <input
          type="search"
          data-key="/"
          aria-label="Names that begin with"
          placeholder="Begins with…"
          value=${search}
          onInput=${(event: { currentTarget: HTMLInputElement }) => route(link(path, { ...query, q: event.currentTarget.value }), true)}
        />
        <button type="button" data-key="r" onClick=${reload}>Reload</button>
        ${marked.size > 0 && html`<button type="button" class="danger" onClick=${() => setDeleting(true)}>Delete ${exact(marked.size)}</button>`}
        <button type="button" class="primary" data-key="n" onClick=${() => chooser.current?.click()}>Upload</button>
        <input
          type="file"
          multiple
          hidden
          ref=${chooser}
          aria-label="Files to upload"
          onChange=${(event: { currentTarget: HTMLInputElement }) => {
            startUploads(bucket, prefix, chosenFiles(event.currentTarget.files ?? []))
            event.currentTarget.value = ''
          }}
        />
      </div>
      <${StepKeys} step=${step} />
      <${UploadList} bucket=${bucket} onDone=${reload} />
      ${dropping.problem && html`<${Problem} of=${dropping.problem} />`}
      ${problem && html`<${Problem} of=${problem} />`}
      ${
        !isLoaded
          ? problem === null && html`<${Loading} />`
          : folders.length + objects.length === 0
            ? html`<${Empty}
                title=${prefix + search === '' ? 'No object yet' : 'Nothing begins like this'}
                command=${prefix + search === '' ? curlCommand('objectstore', `/${bucket}/`, { file: 'FILE' }) : undefined}
                >Drop files here, or choose some with Upload.<//
              >`
            : html`<div class="record object head" aria-hidden="true">
                  <span></span><span>Name</span><span>Size</span><span>Modified</span>
                </div>
                <${VirtualList}
                  label=${`Objects of ${bucket}`}
                  count=${folders.length + objects.length}
                  rowPixels=${ROW_PIXELS}
                  onRange=${(_first: number, last: number) => token !== null && last >= folders.length + objects.length - 50 && more()}
                  row=${(index: number) => {
                    const folder = folders[index]
                    if (folder !== undefined)
                      return html`<${Folder}
                        name=${folder.slice(prefix.length)}
                        onOpen=${() => go({ prefix: folder, q: null, key: null })}
                      />`
                    const object = objects[index - folders.length]!
                    return html`<${Item}
                      object=${object}
                      name=${object.key.slice(prefix.length)}
                      isSelected=${object.key === selected}
                      isMarked=${marked.has(object.key)}
                      onMark=${() => mark(object.key)}
                      onOpen=${() => go({ key: object.key })}
                    />`
                  }}
                />
                <p class="fine">
                  ${counted(objects.length, 'object')} and
                  ${counted(folders.length, 'folder')}${token !== null ? ' so far' : ''}. Drop files anywhere to upload
                  them here.
                </p>`
      }
    </section>
    ${
      selected !== undefined &&
      html`<${ObjectDetail}
        key=${selected}
        bucket=${bucket}
        name=${selected}
        onClose=${() => go({ key: null })}
        onDeleted=${() => {
          go({ key: null })
          reload()
        }}
      />`
    }
    ${
      isDeleting &&
      html`<${DeleteMany}
        bucket=${bucket}
        keys=${[...marked]}
        onClose=${() => setDeleting(false)}
        onDeleted=${() => {
          setMarked(new Set())
          reload()
        }}
      />`
    }
  </div>`
}

const counted = (count: number, what: string): string => `${exact(count)} ${what}${count === 1 ? '' : 's'}`

function useListing(bucket: string, prefix: string) {
  const [rows, setRows] = useState(NOTHING)
  const [problem, setProblem] = useState<Refusal | null>(null)
  const [turn, setTurn] = useState(0)
  const leaving = useRef(new AbortController())
  const isLoading = useRef(false)
  const load = async (token: string | null, before: Rows, asker: AbortController): Promise<void> => {
    const { signal } = asker
    isLoading.current = true
    try {
      const page = await listObjects(bucket, { prefix, delimiter: '/', token }, signal)
      setRows({
        folders: [...before.folders, ...page.folders],
        objects: [...before.objects, ...page.objects],
        token: page.token,
        isLoaded: true,
      })
      setProblem(null)
    } catch (error) {
      if (signal.aborted) return
      const refusal = asRefusal(error)
      setProblem(refusal)
      againLater(refusal, asker, () => isLoading.current || void load(token, before, asker))
    }
    if (!signal.aborted) isLoading.current = false
  }
  useEffect(() => {
    leaving.current = new AbortController()
    void load(null, NOTHING, leaving.current)
    return () => leaving.current.abort()
  }, [bucket, prefix, turn])
  return {
    rows,
    problem,
    more: (): void => {
      if (!isLoading.current) void load(rows.token, rows, leaving.current)
    },
    reload: (): void => setTurn((before) => before + 1),
  }
}

function Crumbs({ path, prefix }: { path: string; prefix: string }): VNode {
  const names = prefix.split('/').slice(0, -1)
  return html`<nav class="crumbs" aria-label="Folder">
    <a href=${path} aria-current=${prefix === '' ? 'page' : undefined}>all</a>
    ${names.map((name, at) => html` / <a key=${at} href=${link(path, { prefix: `${names.slice(0, at + 1).join('/')}/` })}>${name || '(empty)'}</a>`)}
  </nav>`
}

const Folder = ({ name, onOpen }: { name: string; onOpen: () => void }): VNode =>
  html`<div class="record object">
    <span></span><button type="button" class="link cut" onClick=${onOpen}>${name}</button
    ><span class="fine">folder</span><span></span>
  </div>`

interface ItemProps {
  readonly object: ListedObject
  readonly name: string
  readonly isSelected: boolean
  readonly isMarked: boolean
  readonly onMark: () => void
  readonly onOpen: () => void
}

const Item = ({ object, name, isSelected, isMarked, onMark, onOpen }: ItemProps): VNode =>
  html`<div class=${isSelected ? 'record object chosen' : 'record object'}>
    <input type="checkbox" checked=${isMarked} aria-label=${`Mark ${name}`} onChange=${onMark} />
    <button type="button" class="link cut" aria-current=${isSelected ? 'true' : undefined} onClick=${onOpen}>
      ${name || '(the folder itself)'}
    </button>
    <span><${Bytes} of=${object.size} /></span>
    <span><${When} ms=${object.modifiedMs} /></span>
  </div>`
