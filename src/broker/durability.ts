/** How safe a record is when its publisher is answered. Source: specification "Durability". */

export const RECORD_DURABILITIES = ['volatile', 'local-append', 'local-sync'] as const
export type RecordDurability = (typeof RECORD_DURABILITIES)[number]

/** What is said of a change that was taken. */
export interface Acknowledgement {
  readonly durability: string
  /** Synced to disk before the answer. */
  readonly durable: boolean
  /** Directories that hold it, at least. */
  readonly replicas: number
}
