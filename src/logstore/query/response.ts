/** The body of a query's answer. Written as text around the records, whose JSON is complete already. */

export interface QueryResponse {
  readonly tenant: string
  /** null: the query named none. */
  readonly dataset: string | null
  readonly matched: number
  /** Matching records that are known to be damaged: not counted in `matched`, not shown. */
  readonly quarantined: number
  /** Damaged ranges of the log: what stood in them may be in no index any more, so it is not known whether it matched. */
  readonly quarantinedRanges: number
  /** JSON texts. */
  readonly records: readonly string[]
  readonly limit: number
  readonly cursor: string | null
  readonly nextCursor: string | null
  readonly usedIndexes: readonly string[]
  readonly scanned: number
}

const countMember = (name: string, count: number): string => (count > 0 ? `,"${name}":${count}` : '')

const encoder = new TextEncoder() // its result has a buffer of its own, which can be handed to another thread

export function writeResponse(response: QueryResponse): Uint8Array<ArrayBuffer> {
  const {
    tenant,
    dataset,
    matched,
    quarantined,
    quarantinedRanges,
    records,
    limit,
    cursor,
    nextCursor,
    usedIndexes,
    scanned,
  } = response
  const page = { limit, cursor, next_cursor: nextCursor }
  return encoder.encode(
    `{"status":"ok","api_version":"v1","tenant_id":${JSON.stringify(tenant)},"dataset":${JSON.stringify(dataset)}` +
      `,"matched_records":${matched},"results":[${records.map((record) => `{"record":${record}}`).join(',')}]` +
      `,"page":${JSON.stringify(page)},"used_indexes":${JSON.stringify(usedIndexes)},"scanned_bundles":${scanned}` +
      countMember('quarantined_records', quarantined) +
      countMember('quarantined_ranges', quarantinedRanges) +
      '}',
  )
}
