/**
 * What an object shows: its text, or the beginning of it, or its picture. The bytes come as they are stored, and are decoded here: browsers refuse
 * an answer whose bytes are not what its encoding says, and cannot decode a part of one.
 */
import type { VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { prettyJson } from '../format.ts'
import { html } from '../html.ts'
import { useLoaded } from '../loading.ts'
import { Loading, Problem } from '../parts.ts'
import { s3 } from './s3.ts'

const PREVIEW_BYTES = 256 * 1024
const IMAGE_BYTES_MAX = 16 * 1024 * 1024

interface PreviewProps {
  readonly bucket: string
  readonly name: string
  readonly size: number
  readonly type: string
  /** As the header names it; '': none. */
  readonly encoding: string
}

type Seen =
  | { readonly kind: 'text'; readonly text: string; readonly isWhole: boolean }
  | { readonly kind: 'image'; readonly blob: Blob }
  | { readonly kind: 'bytes' }

export function Preview({ bucket, name, size, type, encoding }: PreviewProps): VNode {
  const isImage = /^image\/(png|jpeg|gif|webp|avif|svg\+xml)\b/.test(type) && size <= IMAGE_BYTES_MAX
  const { value, problem } = useLoaded(
    (signal) => look({ bucket, name, size, type, encoding }, isImage, signal),
    [bucket, name, size],
  )
  const [address, setAddress] = useState('')
  useEffect(() => {
    if (value?.kind !== 'image') return
    const made = URL.createObjectURL(value.blob)
    setAddress(made)
    return () => URL.revokeObjectURL(made)
  }, [value])
  return html`<div>
    <h3>Preview</h3>
    ${problem && html`<${Problem} of=${problem} />`} ${value === null && problem === null && html`<${Loading} />`}
    ${value?.kind === 'image' && address !== '' && html`<img class="preview" src=${address} alt=${`What ${name} shows`} />`}
    ${value?.kind === 'text' && html`<pre class="payload" tabindex="0" aria-label="Content"><code>${value.text}</code></pre>`}
    ${value?.kind === 'bytes' && html`<p class="loading">Neither text nor a picture.</p>`}
    ${value?.kind === 'text' && !value.isWhole && html`<p class="fine">Only the beginning is shown.</p>`}
  </div>`
}

async function look(of: PreviewProps, isImage: boolean, signal: AbortSignal): Promise<Seen> {
  const { bucket, name: key, size, type } = of
  if (size === 0) return { kind: 'text', text: '', isWhole: true }
  const max = isImage ? IMAGE_BYTES_MAX : PREVIEW_BYTES
  const headers = { range: `bytes=0-${max - 1}` }
  const stored = new Uint8Array(await (await s3({ method: 'GET', bucket, key, headers, signal })).arrayBuffer())
  const decoded = await decodedOf(of, stored, max, signal)
  const bytes = decoded?.bytes ?? stored
  if (isImage) return { kind: 'image', blob: new Blob([bytes], { type }) }
  if (bytes.subarray(0, 4096).includes(0)) return { kind: 'bytes' }
  const isWhole = size <= max && decoded?.isWhole !== false
  const text = new TextDecoder().decode(bytes)
  try {
    return { kind: 'text', text: isWhole ? prettyJson(text) : text, isWhole }
  } catch {
    return { kind: 'text', text, isWhole }
  }
}

interface Beginning {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly isWhole: boolean
}

/** Encodings that every browser decodes for a page. */
const FORMATS: Readonly<Record<string, CompressionFormat>> = { gzip: 'gzip', 'x-gzip': 'gzip', deflate: 'deflate' }

/** The beginning of what the bytes encode; null: they are not of the encoding, or it is not known. */
async function decodedOf(
  { bucket, name: key, size, encoding }: PreviewProps,
  stored: Uint8Array<ArrayBuffer>,
  max: number,
  signal: AbortSignal,
): Promise<Beginning | null> {
  const name = encoding.trim().toLowerCase()
  const format = FORMATS[name]
  if (format !== undefined)
    return beginningOf(new Blob([stored]).stream().pipeThrough(new DecompressionStream(format)), max)
  if (name === '' || size > max) return null
  const answer = await s3({ method: 'GET', bucket, key, signal }).catch(() => null) // the browser decodes it, or refuses it
  signal.throwIfAborted()
  return answer?.body ? beginningOf(answer.body, max) : null
}

/** @param max no more bytes are read: few of an encoding may stand for very many */
async function beginningOf(stream: ReadableStream<Uint8Array>, max: number): Promise<Beginning | null> {
  const reader = stream.getReader()
  const bytes = new Uint8Array(max)
  let count = 0
  let isWhole = false
  try {
    while (count < max && !isWhole) {
      const { done, value } = await reader.read()
      isWhole = done
      const part = value?.subarray(0, max - count) ?? new Uint8Array()
      bytes.set(part, count)
      count += part.byteLength
    }
    if (!isWhole) await reader.cancel()
  } catch {
    if (count === 0) return null // else it is the end of a part
  }
  return { bytes: bytes.subarray(0, count), isWhole }
}
