import type { Bucket, Upload, UploadedPart } from '../operations.ts'
import type { UploadState } from './state.ts'

/** An upload as callers see it. Its parts, of which there may be 10 000, are sorted only when they are first read. */
export class UploadView implements Upload {
  readonly bucket: Bucket
  readonly #state: UploadState
  #parts: readonly UploadedPart[] | null = null

  constructor(bucket: Bucket, state: UploadState) {
    this.bucket = bucket
    this.#state = state
  }

  get uploadId(): Upload['uploadId'] {
    return this.#state.uploadId
  }

  get key(): Upload['key'] {
    return this.#state.key.toString()
  }

  get initiator(): Upload['initiator'] {
    return this.#state.initiator
  }

  get initiatedMs(): Upload['initiatedMs'] {
    return this.#state.initiatedMs
  }

  get checksum(): Upload['checksum'] {
    return this.#state.checksum
  }

  get storageClass(): Upload['storageClass'] {
    return this.#state.attributes.storageClass
  }

  get encryption(): Upload['encryption'] {
    return this.#state.attributes.encryption
  }

  get parts(): readonly UploadedPart[] {
    this.#parts ??= [...this.#state.parts.values()].sort((a, b) => a.partNumber - b.partNumber)
    return this.#parts
  }
}
