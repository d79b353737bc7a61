/**
 * One OTLP batch, described by ranges of the bytes it came in: what the scanners produce and the decode lane consumes.
 * A struct of typed arrays, filled again and again; scanning a record allocates nothing.
 *
 *   records    byte range, group, time, trace id        one entry per LogRecord or Span, in batch order
 *   groups     resource, ranges of scope, schema URL    one entry per ScopeLogs or ScopeSpans that has records
 *   resources  ranges of itself, schema URL; tenant     one entry per ResourceLogs or ResourceSpans that has records
 *              claim, dataset
 *
 * - `recordCount` counts every record that was scanned; only the first `capacity` are described. A batch over the limit is still validated to its
 *   end, so that a malformed batch is never said to be too large.
 * - The groups and resources described are those of described records, each numbered in batch order.
 * - A range is [start, end) in the scanned bytes. Protobuf: the content of a message, without tag and length. JSON: the text of an object, from `{`
 *   to `}`, or of a string, with its quotes. Start and end are both 0 where a resource or scope is absent, and where a schema URL is absent or empty;
 *   what is present never starts at 0.
 * - Time is a u64 of nanoseconds since the Unix epoch in two words; 0 and 0 say that the record has no time of its own.
 * - `traceWords` holds the 16 bytes of the trace id as four big-endian words; all zeros say that it is absent or invalid.
 *
 * B6  a lenient batch leaves out records that are malformed and counts them; an error outside of records makes the batch malformed.
 */

/** Most records of one frame. A larger batch is refused whole, or cut into several frames where the tenant's policy says so. */
export const RECORDS_PER_BATCH_MAX = 512

/** The sender's bytes are not an OTLP batch. The message says what and where, and never quotes the payload. */
export class MalformedBatchError extends Error {
  readonly byteOffset: number

  constructor(problem: string, byteOffset: number) {
    super(`${problem} at byte ${byteOffset}`)
    this.name = 'MalformedBatchError'
    this.byteOffset = byteOffset
  }
}

/** What the attributes of a resource say about its owner. */
export interface ResourceIdentity {
  /** `tenant_id` or `service.logstore.tenant_id`; null when neither is there. */
  readonly tenantClaim: string | null
  /** Two claims that differ, or one that is not a string and so equals no tenant. */
  readonly tenantConflict: boolean
  /** `service.name`; null when absent, empty or not a string. */
  readonly dataset: string | null
}

export const NO_IDENTITY: ResourceIdentity = { tenantClaim: null, tenantConflict: false, dataset: null }

export class OtlpBatch {
  /** How many records, groups and resources have room. */
  readonly capacity: number
  /** B6 */
  isLenient = false
  rejectedCount = 0
  /** The problem of the first rejected record. */
  rejectedBecause = ''

  recordCount = 0
  readonly recordStart: Uint32Array
  readonly recordEnd: Uint32Array
  readonly recordGroup: Uint16Array
  readonly timeHigh: Uint32Array
  readonly timeLow: Uint32Array
  readonly traceWords: Uint32Array

  groupCount = 0
  readonly groupResource: Uint16Array
  readonly groupScopeStart: Uint32Array
  readonly groupScopeEnd: Uint32Array
  readonly groupSchemaUrlStart: Uint32Array
  readonly groupSchemaUrlEnd: Uint32Array

  /** How many groups and resources have a schema URL. */
  schemaUrlCount = 0

  resourceCount = 0
  readonly resourceStart: Uint32Array
  readonly resourceEnd: Uint32Array
  readonly resourceSchemaUrlStart: Uint32Array
  readonly resourceSchemaUrlEnd: Uint32Array
  readonly resourceTenantClaim: (string | null)[]
  readonly resourceTenantConflict: boolean[]
  readonly resourceDataset: (string | null)[]

  constructor(capacity: number = RECORDS_PER_BATCH_MAX) {
    this.capacity = capacity
    this.recordStart = new Uint32Array(capacity)
    this.recordEnd = new Uint32Array(capacity)
    this.recordGroup = new Uint16Array(capacity)
    this.timeHigh = new Uint32Array(capacity)
    this.timeLow = new Uint32Array(capacity)
    this.traceWords = new Uint32Array(4 * capacity)
    this.groupResource = new Uint16Array(capacity)
    this.groupScopeStart = new Uint32Array(capacity)
    this.groupScopeEnd = new Uint32Array(capacity)
    this.groupSchemaUrlStart = new Uint32Array(capacity)
    this.groupSchemaUrlEnd = new Uint32Array(capacity)
    this.resourceStart = new Uint32Array(capacity)
    this.resourceEnd = new Uint32Array(capacity)
    this.resourceSchemaUrlStart = new Uint32Array(capacity)
    this.resourceSchemaUrlEnd = new Uint32Array(capacity)
    this.resourceTenantClaim = Array.from({ length: capacity }, () => null)
    this.resourceDataset = Array.from({ length: capacity }, () => null)
    this.resourceTenantConflict = Array.from({ length: capacity }, () => false)
  }

  reset(): void {
    this.recordCount = 0
    this.groupCount = 0
    this.resourceCount = 0
    this.schemaUrlCount = 0
    this.rejectedCount = 0
    this.rejectedBecause = ''
  }

  /** Called by a scanner of a lenient batch (B6). @throws the error, if it is no fault of the record */
  reject(error: unknown): void {
    if (!(error instanceof MalformedBatchError)) throw error
    if (this.rejectedCount++ === 0) this.rejectedBecause = error.message
  }

  /** Called by a scanner at the end of a ScopeLogs or ScopeSpans whose records were described. */
  addGroup(scopeStart: number, scopeEnd: number, schemaUrlStart: number, schemaUrlEnd: number): void {
    const group = this.groupCount++
    this.groupResource[group] = this.resourceCount
    this.groupScopeStart[group] = scopeStart
    this.groupScopeEnd[group] = scopeEnd
    this.groupSchemaUrlStart[group] = schemaUrlStart
    this.groupSchemaUrlEnd[group] = schemaUrlEnd
    if (schemaUrlEnd > 0) this.schemaUrlCount++
  }

  /** Called by a scanner at the end of a ResourceLogs or ResourceSpans that added a group. */
  addResource(
    start: number,
    end: number,
    schemaUrlStart: number,
    schemaUrlEnd: number,
    identity: ResourceIdentity,
  ): void {
    const resource = this.resourceCount++
    this.resourceStart[resource] = start
    this.resourceEnd[resource] = end
    this.resourceSchemaUrlStart[resource] = schemaUrlStart
    this.resourceSchemaUrlEnd[resource] = schemaUrlEnd
    if (schemaUrlEnd > 0) this.schemaUrlCount++
    this.resourceTenantClaim[resource] = identity.tenantClaim
    this.resourceTenantConflict[resource] = identity.tenantConflict
    this.resourceDataset[resource] = identity.dataset
  }
}

/**
 * Remembers the identity of the resource seen last: a sender repeats the same resource in every batch, and comparing its
 * bytes is cheaper than reading them. Each scanner has its own, so equal bytes were also validated as the same format.
 */
export class ResourceCache {
  #bytes = new Uint8Array(0)
  #identity: ResourceIdentity | null = null

  /** The identity of these bytes when they equal those of the last `put`, else null. */
  find(bytes: Uint8Array, start: number, end: number): ResourceIdentity | null {
    const known = this.#bytes
    if (known.length !== end - start) return null
    for (let i = 0; i < known.length; i++) if (known[i] !== bytes[start + i]) return null
    return this.#identity
  }

  put(bytes: Uint8Array, start: number, end: number, identity: ResourceIdentity): void {
    this.#bytes = new Uint8Array(bytes.subarray(start, end)) // a copy, where slice of a Buffer would be a view
    this.#identity = identity
  }
}

/** Gathers the identity of one resource from its attributes, in their order: the last `service.name` wins. */
export class IdentityReader {
  #tenantClaim: string | null = null
  #tenantConflict = false
  #dataset: string | null = null

  reset(): void {
    this.#tenantClaim = null
    this.#tenantConflict = false
    this.#dataset = null
  }

  /** `value` is null when the attribute is not a string. */
  tenantClaim(value: string | null): void {
    if (value === null || (this.#tenantClaim !== null && this.#tenantClaim !== value)) this.#tenantConflict = true
    else this.#tenantClaim = value
  }

  serviceName(value: string | null): void {
    this.#dataset = value === '' || value === null ? null : value.toWellFormed() // as it is stored, in UTF-8
  }

  identity(): ResourceIdentity {
    return { tenantClaim: this.#tenantClaim, tenantConflict: this.#tenantConflict, dataset: this.#dataset }
  }
}
