/** What the headers of a request say of its body, before any of it is read. */
import type { Caller } from '../auth/request-identity.ts'
import { eitherHeader } from '../auth/request-identity.ts'
import { refuse } from '../../refusals.ts'
import type { AwsChunkedFraming } from './aws-chunked.ts'
import { parseContentMd5 } from './body-claims.ts'
import type { BodyClaims } from './body-claims.ts'
import { parseContentSha256 } from './content-sha256.ts'
import type { ContentSha256 } from './content-sha256.ts'
import { trailerNotSupported } from './declared-checksum.ts'
import type { DeclaredChecksum } from './declared-checksum.ts'

export interface BodyPlan {
  /** Null: the body is the payload as it stands. */
  readonly framing: AwsChunkedFraming | null
  /** Length of the payload; null when nothing says it. */
  readonly contentLength: number | null
  readonly claims: BodyClaims
}

/**
 * @param contentLength of the body on the wire; null when not declared
 * @param checksum      what the request declares of this body (`declaredChecksum`), or null where such headers mean something else
 * @throws S3Error
 */
export function planBody(
  headers: ReadonlyMap<string, string>,
  caller: Caller,
  contentLength: number | null,
  checksum: DeclaredChecksum | null,
): BodyPlan {
  const content = caller.contentSha256 === null ? null : parseContentSha256(caller.contentSha256)
  const framing = framingOf(headers, content, caller, checksum)
  if (framing === null && checksum !== null && checksum.trailerName !== null) throw refuse('MalformedTrailerError')
  return {
    framing,
    contentLength: framing?.decodedBytes ?? contentLength,
    claims: {
      contentMd5: parseContentMd5(headers),
      sha256: content?.kind === 'digest' ? content.hex : null,
      checksum,
    },
  }
}

/** Null: there is no framing. The content's hash, or the length of what is decoded, tells whether there is one; never its encoding alone. */
function framingOf(
  headers: ReadonlyMap<string, string>,
  content: ContentSha256 | null,
  caller: Caller,
  checksum: DeclaredChecksum | null,
): AwsChunkedFraming | null {
  const length = eitherHeader(headers, 'decoded-content-length')
  const isChunked = content?.kind === 'chunked'
  if (length === undefined) {
    if (isChunked) throw refuse('MissingContentLength')
    return null
  }
  if (!/^\d{1,15}$/.test(length)) {
    throw refuse('InvalidArgument', 'x-amz-decoded-content-length must be a number of bytes', {
      fields: { ArgumentName: 'x-amz-decoded-content-length', ArgumentValue: length.slice(0, 128) },
    })
  }
  const trailerName = checksum?.trailerName ?? null
  if (trailerName !== null && isChunked && !content.hasTrailer) throw trailerNotSupported()
  const isSigned = isChunked && content.isSigned
  return {
    decodedBytes: Number(length),
    signatures: isSigned ? (caller.chunkSigning ?? 'unchecked') : null,
    trailerName,
  }
}

/** S3 wants Content-MD5 or a checksum with documents whose loss would hurt. @throws S3Error InvalidRequest */
export function demandIntegrity({ claims }: BodyPlan): void {
  if (claims.contentMd5 !== null || claims.checksum !== null) return
  throw refuse('InvalidRequest', 'Missing required header for this request: Content-MD5 OR x-amz-checksum-*')
}

/** The encodings of the object itself: those of the header without `aws-chunked`; null when none are left. */
export function storedContentEncoding(headers: ReadonlyMap<string, string>): string | null {
  const header = headers.get('content-encoding') ?? ''
  if (!/aws-chunked/i.test(header)) return header || null
  const encodings = header.split(',').map((encoding) => encoding.trim())
  return encodings.filter((encoding) => encoding !== '' && encoding.toLowerCase() !== 'aws-chunked').join(',') || null
}
