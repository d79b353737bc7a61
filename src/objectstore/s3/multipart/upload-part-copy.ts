/** UploadPartCopy. */
import { eitherHeader } from '../auth/request-identity.ts'
import { renderCopyPart } from '../objects/object-answers.ts'
import type { S3Error } from '../../refusals.ts'
import { copyBody } from '../objects/copy-body.ts'
import { copySourceHeader, copySourceName, openCopySource } from '../objects/copy-source.ts'
import type { ObjectHandler } from '../handler.ts'
import { invalidHeader } from '../objects/header-refusals.ts'
import { demandSize } from '../body/receive-body.ts'
import { keepPart, namedPart, partHeaders, targetOf } from './named-part.ts'

export const uploadPartCopy: ObjectHandler = async (request, bucket, key, context) => {
  const { store, putBytesMax } = context
  const part = namedPart(request, bucket, key, store)
  const { algorithm, type, isChosen } = part.upload.checksum
  const header = eitherHeader(request.headers, 'copy-source-range') ?? null
  const asked = header === null ? null : parsedRange(header)
  const source = await openCopySource(request, context)
  if (header !== null && asked !== null && asked.to > source.size) throw beyond(header, source.size)
  const { from, to } = asked ?? { from: 0, to: source.size }
  demandSize(to - from, putBytesMax)

  const writer = store.receive(to - from, { checksums: [algorithm], sha256: false }, targetOf(part))
  const received = await copyBody(source.read(from, to), writer)
  const { etag, lastModifiedMs, checksum } = await keepPart(part, received, store)
  const checksums = isChosen ? [{ algorithm, type, value: checksum.value }] : []
  return {
    status: 200,
    headers: [...partHeaders(part), copySourceHeader(copySourceName(request.headers))],
    body: { contentType: 'application/xml', bytes: renderCopyPart({ etag, lastModifiedMs, checksums }) },
  }
}

interface ByteRange {
  readonly from: number
  /** The first byte behind it. */
  readonly to: number
}

/** Stricter than the range of a read: both ends, once, and nothing else. */
function parsedRange(header: string): ByteRange {
  const [, first, last] = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(header) ?? []
  const range = { from: Number(first), to: Number(last) + 1 }
  if (range.from < range.to) return range // NaN gives false as well
  throw invalid(
    'The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the ' +
      'first and last bytes to copy',
    header,
  )
}

const beyond = (header: string, size: number): S3Error =>
  invalid(`Range specified is not valid for source object of size: ${size}`, header)

const invalid = (message: string, header: string): S3Error => invalidHeader('x-amz-copy-source-range', header, message)
