/** How safe a record is when its publisher is answered. Source: specification "Durability". */

export const RECORD_DURABILITIES = ['volatile', 'local-append', 'local-sync'] as const
export type RecordDurability = (typeof RECORD_DURABILITIES)[number]

/** What an answer says about a change that was accepted. */
export interface Acknowledgement {
  readonly durability: string
  /** Synced to disk before the answer. */
  readonly durable: boolean
  /** How many directories hold it at least. */
  readonly replicas: number
}
