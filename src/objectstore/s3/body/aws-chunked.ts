/**
 * Bodies in the framing `aws-chunked`, decoded as they arrive:
 *
 *   body     = chunk* last trailer* CRLF
 *   chunk    = size [";chunk-signature=" 64 hex] CRLF payload CRLF      size in hex, > 0
 *   last     = "0" [";chunk-signature=" 64 hex] CRLF
 *   trailer  = name ":" value CRLF
 *
 * The limits below bound the memory, however the body is cut up (D1). Payload is handed on before the signature of its chunk could be checked. So
 * it must have no effect before `finish` returned. Every byte of the body is accounted for. Besides the above, the decoder accepts what clients
 * send: sizes in lower and upper case, and between trailers empty lines and lines that end in LF alone.
 *
 * D1  payload is handed on as views of what was pushed, never copied; only a line that is split between two pushes is kept.
 *
 * Source: Amazon S3 API reference, "Transferring Payload in Multiple Chunks" and "Including Trailing Headers".
 */
import { ChunkSignatures } from '../auth/chunk-signatures.ts'
import type { ChunkSigning } from '../auth/chunk-signatures.ts'
import { refuse } from '../../refusals.ts'

/** Plain data, for any thread that decodes. */
export interface AwsChunkedFraming {
  /** Length of the payload as declared. */
  readonly decodedBytes: number
  /** Null: chunks need no signature. Otherwise every chunk and the trailers must have one. */
  readonly signatures: ChunkSigning | 'unchecked' | null
  /** Lower case; null: no trailer may come. */
  readonly trailerName: string | null
}

/** All chunks but the last with payload are at least this long. */
const CHUNK_BYTES_MIN = 8192

const CHUNK_HEADER = /^0*([0-9A-Fa-f]{1,13})(?:;chunk-signature=([0-9a-f]{64}))?$/
/** A size of 16 digits and a signature. */
const CHUNK_HEADER_BYTES_MAX = 16 + ';chunk-signature='.length + 64
/** Everything behind the header of the last chunk. */
export const TRAILERS_BYTES_MAX = 1024

const TRAILER = /^([A-Za-z0-9-]{1,64}):[ \t]*([\x21-\x7e]*)$/
const TRAILER_SIGNATURE = /^x-(?:amz|obj)-trailer-signature$/
const CR = 13
const LF = 10

export class AwsChunkedDecoder {
  readonly #framing: AwsChunkedFraming
  readonly #sink: (payload: Uint8Array) => void
  readonly #signatures: ChunkSignatures | null
  #state: 'header' | 'payload' | 'payload-end' | 'trailers' = 'header'
  /** The line so far, or all trailers so far, in Latin-1. */
  #text = ''
  #decodedBytes = 0
  #chunks = 0
  #chunkBytes = 0
  #chunkBytesLeft = 0
  #chunkSignature = ''

  /** @param sink called with each piece of payload; the view is valid as long as what was pushed (D1) */
  constructor(framing: AwsChunkedFraming, sink: (payload: Uint8Array) => void) {
    this.#framing = framing
    this.#sink = sink
    const { signatures } = framing
    this.#signatures = signatures === null || signatures === 'unchecked' ? null : new ChunkSignatures(signatures)
  }

  /** @throws S3Error; nothing may be pushed after that */
  push(bytes: Uint8Array): void {
    let at = 0
    while (at < bytes.length) {
      if (this.#state === 'payload') at = this.#payload(bytes, at)
      else if (this.#state === 'trailers') at = this.#collectTrailers(bytes, at)
      else at = this.#line(bytes, at)
    }
  }

  /**
   * To be called when the body has ended.
   *
   * @returns value of the announced trailer; null when none was announced
   * @throws S3Error
   */
  finish(): string | null {
    if (this.#state !== 'trailers' || this.#decodedBytes !== this.#framing.decodedBytes) throw incomplete()
    return this.#readTrailers()
  }

  #payload(bytes: Uint8Array, at: number): number {
    const end = Math.min(bytes.length, at + this.#chunkBytesLeft)
    const payload = bytes.subarray(at, end)
    this.#signatures?.update(payload)
    this.#sink(payload)
    this.#chunkBytesLeft -= payload.length
    if (this.#chunkBytesLeft === 0) {
      this.#signatures?.endChunk(this.#chunkSignature)
      this.#state = 'payload-end'
    }
    return end
  }

  /** The header of a chunk, or the end of line behind its payload. */
  #line(bytes: Uint8Array, at: number): number {
    const bytesMax = this.#state === 'header' ? CHUNK_HEADER_BYTES_MAX + 2 : 2
    const room = bytesMax - this.#text.length
    const feed = bytes.subarray(at, at + room).indexOf(LF)
    if (feed < 0) {
      if (bytes.length - at >= room) throw incomplete()
      this.#text += latin1(bytes, at, bytes.length)
      return bytes.length
    }
    const end = at + feed + 1
    const line = this.#text + latin1(bytes, at, end)
    this.#text = ''
    if (line.charCodeAt(line.length - 2) !== CR) throw incomplete()
    if (this.#state === 'header') this.#beginChunk(line.slice(0, -2))
    else if (line.length === 2) this.#state = 'header'
    else throw incomplete()
    return end
  }

  #beginChunk(header: string): void {
    const [, size, signature] = CHUNK_HEADER.exec(header) ?? []
    if (size === undefined || (this.#framing.signatures !== null && signature === undefined)) throw incomplete()
    const bytes = Number.parseInt(size, 16)
    this.#chunks++
    if (bytes > 0 && this.#chunks > 1 && this.#chunkBytes < CHUNK_BYTES_MIN) {
      throw refuse('InvalidChunkSizeError', undefined, {
        fields: { Chunk: this.#chunks, BadChunkSize: this.#chunkBytes },
      })
    }
    if (bytes > this.#framing.decodedBytes - this.#decodedBytes) throw incomplete()
    this.#decodedBytes += bytes
    this.#chunkBytes = this.#chunkBytesLeft = bytes
    this.#chunkSignature = signature ?? ''
    if (bytes > 0) {
      this.#state = 'payload'
      return
    }
    this.#signatures?.endChunk(this.#chunkSignature)
    this.#state = 'trailers'
  }

  #collectTrailers(bytes: Uint8Array, at: number): number {
    if (this.#text.length + bytes.length - at > TRAILERS_BYTES_MAX) throw malformedTrailer()
    this.#text += latin1(bytes, at, bytes.length)
    return bytes.length
  }

  #readTrailers(): string | null {
    const lines = this.#text.split('\n').map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line))
    if (lines.length < 2 || lines.at(-1) !== '' || lines.at(-2) !== '') throw incomplete()
    let value: string | null = null
    let signature: string | null = null
    for (const line of lines) {
      if (line === '') continue
      const [, name = '', text = ''] = TRAILER.exec(line) ?? []
      if (value === null && name.toLowerCase() === this.#framing.trailerName) value = text
      else if (signature === null && TRAILER_SIGNATURE.test(name.toLowerCase())) signature = text
      else throw malformedTrailer()
    }
    const { trailerName, signatures } = this.#framing
    const mustBeSigned = trailerName !== null && signatures !== null
    if ((value === null) !== (trailerName === null) || (signature === null) === mustBeSigned) throw malformedTrailer()
    if (signature !== null) this.#signatures?.checkTrailers(`${trailerName}:${value}\n`, signature)
    return value
  }
}

const latin1 = (bytes: Uint8Array, from: number, to: number): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('latin1')

const incomplete = (): Error => refuse('IncompleteBody')

const malformedTrailer = (): Error => refuse('MalformedTrailerError')
