/** One multipart upload: what was put into it, and what became of it. */
import type { ExpectedObject, KeyLedger, Version } from './key-ledger.ts'

export interface LedgerPart {
  readonly bytes: Buffer
  readonly md5: string
}

/** What was asked for last; for `completing` and `aborting` it is unknown whether it happened. */
export type UploadFate = 'open' | 'completing' | 'completed' | 'aborting' | 'aborted'

export class UploadLedger {
  readonly ledger: KeyLedger
  readonly id: string
  /** Attributes of the object that it becomes. */
  readonly attributes: Omit<ExpectedObject, 'body' | 'etag'>
  readonly partsPlanned: number
  fate: UploadFate = 'open'
  /** Parts that were answered. A part that was asked for in vain is not there until it is put again. */
  readonly parts = new Map<number, LedgerPart>()
  /** Numbers of parts of which it is unknown what is there. */
  readonly unsure = new Set<number>()
  /** The version of the object that the upload becomes; null: completion was not asked for. */
  completion: Version | null = null

  constructor(ledger: KeyLedger, id: string, attributes: Omit<ExpectedObject, 'body' | 'etag'>, partsPlanned: number) {
    this.ledger = ledger
    this.id = id
    this.attributes = attributes
    this.partsPlanned = partsPlanned
  }

  get target(): string {
    return `${this.ledger.target}?uploadId=${this.id}`
  }
}
