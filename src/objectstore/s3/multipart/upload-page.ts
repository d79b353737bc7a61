/** One page of the uploads of a bucket. Keys are compared as their bytes of UTF-8. */
import { FirstEnd } from '../../index/first-end.ts'
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
  /** Key of the last entry; '' when there is none. The id is also '' when the last entry is a common prefix. */
  readonly nextKeyMarker: string
  readonly nextUploadIdMarker: string
}

interface Place {
  readonly key: Buffer
  readonly behind: string | null
}

/**
 * A common prefix costs one search, as in a listing of keys.
 *
 * @param uploadsFrom as `ObjectStore.uploads`
 */
export function uploadPage(
  uploadsFrom: (key: Buffer, behind: string | null) => Iterable<Upload>,
  options: UploadPageOptions,
): UploadPage {
  const { prefix, keyMarker, max } = options
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
  const firstEnd = new FirstEnd(Buffer.from(options.delimiter))
  const prefixBytes = Buffer.byteLength(prefix)
  let place: Place = firstPlace(options)
  for (let isOver = false; !isOver;) {
    isOver = true
    for (const upload of uploadsFrom(place.key, place.behind)) {
      if (!upload.key.startsWith(prefix)) return page(false)
      const key = Buffer.from(upload.key)
      const common = key.subarray(0, firstEnd.in(key, prefixBytes, key.length))
      const isCommon = common.length > 0
      if (!isCommon || !keyMarker.startsWith(common.toString())) {
        if (uploads.length + commonPrefixes.length === max) return page(true)
        if (isCommon) commonPrefixes.push(common.toString())
        else uploads.push(upload)
        next = isCommon
          ? { keyMarker: common.toString(), uploadIdMarker: '' }
          : { keyMarker: upload.key, uploadIdMarker: upload.uploadId }
      }
      if (!isCommon) continue
      place = { key: behindAll(common), behind: null }
      isOver = false
      break
    }
  }
  return page(false)
}

/** The place behind the markers, and not before the prefix. If the marker's upload is gone, all of its key are listed: twice is better than never. */
function firstPlace({ prefix, keyMarker, uploadIdMarker }: UploadPageOptions): Place {
  const [first, marker] = [Buffer.from(prefix), Buffer.from(keyMarker)]
  if (keyMarker === '' || first.compare(marker) > 0) return { key: first, behind: null }
  if (uploadIdMarker !== '') return { key: marker, behind: uploadIdMarker }
  return { key: Buffer.concat([marker, Buffer.of(0)]), behind: null }
}

/** The lowest place above all keys that begin so. */
function behindAll(common: Buffer): Buffer {
  const place = Buffer.from(common)
  place[place.length - 1]!++ // a byte of UTF-8, so less than 0xff
  return place
}
