/**
 * Signatures of the chunks of a body, each over the one before: the first over that of the request.
 * Source: Amazon S3 API reference, "Transferring Payload in Multiple Chunks" and "Including Trailing Headers".
 */
import { createHash, hash } from 'node:crypto'
import { EMPTY_SHA256, sameSignature, signatureDoesNotMatch, signatureOf } from './sigv4.ts'

/** Plain data, for any thread that reads the body. */
export interface ChunkSigning {
  readonly accessKeyId: string
  readonly signingKey: Uint8Array
  /** In the basic form. */
  readonly timestamp: string
  readonly scope: string
  /** Signature of the request. */
  readonly seedSignature: string
}

export class ChunkSignatures {
  readonly #signing: ChunkSigning
  #previous: string
  #digest = createHash('sha256')

  constructor(signing: ChunkSigning) {
    this.#signing = signing
    this.#previous = signing.seedSignature
  }

  /** Takes payload of the present chunk. */
  update(payload: Uint8Array): void {
    this.#digest.update(payload)
  }

  /** @throws S3Error SignatureDoesNotMatch when the chunk, or one before it, is not what was signed */
  endChunk(signature: string): void {
    const text = this.#text('AWS4-HMAC-SHA256-PAYLOAD', EMPTY_SHA256, this.#digest.digest('hex'))
    this.#check(text, signature)
    this.#digest = createHash('sha256')
  }

  /** @param trailers `name:value\n` for each, as sent */
  checkTrailers(trailers: string, signature: string): void {
    this.#check(this.#text('AWS4-HMAC-SHA256-TRAILER', hash('sha256', trailers)), signature)
  }

  #text(algorithm: string, ...digests: readonly string[]): string {
    return [algorithm, this.#signing.timestamp, this.#signing.scope, this.#previous, ...digests].join('\n')
  }

  #check(text: string, signature: string): void {
    const expected = signatureOf(this.#signing.signingKey, text)
    if (!sameSignature(expected, signature)) {
      throw signatureDoesNotMatch(this.#signing.accessKeyId, signature, text, '')
    }
    this.#previous = expected
  }
}
