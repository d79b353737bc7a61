/** One page of the uploads of a bucket. Keys are compared as their bytes of UTF-8. */
import type { Upload } from '../../operations.ts'

export interface UploadPageOptions {
  readonly prefix: string
  /** Empty: none. */
  readonly delimiter: string
  /** Lists what is above it: a key, or a common prefix that ended the page before; empty: no bound. */
  readonly keyMarker: string
  /** Lists the uploads of the marker's key behind this one; empty: none of them. */
  readonly uploadIdMarker: string
  /** Uploads and common prefixes together. */
  readonly max: number
}

export interface UploadPage {
  readonly uploads: readonly Upload[]
  readonly commonPrefixes: readonly string[]
  readonly isTruncated: boolean
  /** Key of the last entry; '' when there is none. Also the id is '' when the last entry is a common prefix. */
  readonly nextKeyMarker: string
  readonly nextUploadIdMarker: string
}

/** @param all in the order of `ObjectStore.uploads` */
export function uploadPage(all: readonly Upload[], options: UploadPageOptions): UploadPage {
  const { prefix, delimiter, keyMarker, max } = options
  const uploads: Upload[] = []
  const commonPrefixes: string[] = []
  let next = { keyMarker: '', uploadIdMarker: '' }
  const page = (isTruncated: boolean): UploadPage => ({
    uploads,
    commonPrefixes,
    isTruncated,
    nextKeyMarker: next.keyMarker,
    nextUploadIdMarker: next.uploadIdMarker,
  })

  if (max === 0) return page(false)
  for (let i = firstAbove(all, options); i < all.length; i++) {
    const upload = all[i]!
    if (!upload.key.startsWith(prefix)) break
    const at = delimiter === '' ? -1 : upload.key.indexOf(delimiter, prefix.length)
    const common = at < 0 ? null : upload.key.slice(0, at + delimiter.length)
    if (common !== null && (common === commonPrefixes.at(-1) || keyMarker.startsWith(common))) continue
    if (uploads.length + commonPrefixes.length === max) return page(true)
    if (common === null) uploads.push(upload)
    else commonPrefixes.push(common)
    next = { keyMarker: common ?? upload.key, uploadIdMarker: common === null ? upload.uploadId : '' }
  }
  return page(false)
}

/** Index of the first upload that is neither before the prefix nor before the markers. */
function firstAbove(all: readonly Upload[], { prefix, keyMarker, uploadIdMarker }: UploadPageOptions): number {
  const fromPrefix = countOf(all, (key) => key.compare(Buffer.from(prefix)) < 0)
  if (keyMarker === '') return fromPrefix
  const marker = Buffer.from(keyMarker)
  const above = countOf(all, (key) => key.compare(marker) <= 0)
  return Math.max(fromPrefix, uploadIdMarker === '' ? above : firstBehind(all, above, keyMarker, uploadIdMarker))
}

/** When the upload of the marker is gone, all of its key are listed: twice is better than never. */
function firstBehind(all: readonly Upload[], above: number, key: string, uploadId: string): number {
  let first = above
  while (first > 0 && all[first - 1]!.key === key) {
    if (all[first - 1]!.uploadId === uploadId) return first
    first--
  }
  return first
}

/** How many keys at the front hold. @param holds true for some keys at the front, and false for all behind them */
function countOf(all: readonly Upload[], holds: (key: Buffer) => boolean): number {
  let [low, high] = [0, all.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (holds(Buffer.from(all[middle]!.key))) low = middle + 1
    else high = middle
  }
  return low
}
