/**
 * What further decode lanes prepare of a request before the sequencer takes it: the tables of its batch, its record ids and, if it came compressed, its
 * body. It is kept in slots of shared memory; main gives a slot to a request and takes it back with the outcome.
 *
 *   QUEUED ──► PREPARING ──► READY       a lane began, and has described the batch
 *      │           └───────► LEFT        the lane leaves such a batch to the sequencer, for example one that is to be refused
 *      └─────► TAKEN                     no lane had begun when its turn came: the sequencer does all of it
 *
 * The sequencer takes requests in the order in which it would take them without lanes, and judges what the lanes left. So answers, refusals and what
 * is stored are the same with any number of lanes.
 *
 * S1  one word of a slot holds its ticket, which each request raises, and its state. A lane that finds another ticket does nothing: the slot belongs to
 *     another request by then
 * S2  a slot is written by the lane that made it PREPARING, and read by the sequencer when it is READY
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import type { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'

const QUEUED = 1
const PREPARING = 2
const READY = 3
const LEFT = 4
const TAKEN = 5
const STATES = 8
const TICKETS_MAX = 2 ** 31 / STATES

/** A longer body is decompressed by the sequencer. */
export const PREPARED_BODY_BYTES_MAX = 1024 * 1024
/** Claims and datasets of the resources. Hardly any batch has more. */
const TEXT_BYTES_MAX = 16 * 1024
const CAPACITY = RECORDS_PER_BATCH_MAX
const HEAD_WORDS = 6
/** How often a sequencer that waits for a lane looks whether it must stop. */
const LOOK_MS = 50

/** Columns of 32 bits that a slot has of its batch. */
const COLUMNS = [
  'recordStart',
  'recordEnd',
  'timeHigh',
  'timeLow',
  'groupScopeStart',
  'groupScopeEnd',
  'groupSchemaUrlStart',
  'groupSchemaUrlEnd',
  'resourceStart',
  'resourceEnd',
  'resourceSchemaUrlStart',
  'resourceSchemaUrlEnd',
] as const
const SHORT_COLUMNS = ['recordGroup', 'groupResource'] as const
const WIDE_WORDS = 4
const COLUMN_WORDS = COLUMNS.length * CAPACITY + 2 * WIDE_WORDS * CAPACITY
const SLOT_BYTES =
  4 * (HEAD_WORDS + COLUMN_WORDS) + 2 * SHORT_COLUMNS.length * CAPACITY + TEXT_BYTES_MAX + PREPARED_BODY_BYTES_MAX

/** A resource's tenant claim, whether it has two different ones, and its dataset. */
type ResourceText = readonly [claim: string | null, conflict: boolean, dataset: string | null]

interface Slot {
  readonly head: Uint32Array
  readonly columns: readonly Uint32Array[]
  readonly traces: Uint32Array
  readonly ids: Uint32Array
  readonly shortColumns: readonly Uint16Array[]
  readonly text: Buffer
  readonly body: Buffer
}

export class PreparedBatches {
  readonly shared: SharedArrayBuffer
  readonly #states: Int32Array
  readonly #slots: readonly Slot[]

  static create(slots: number): PreparedBatches {
    return new PreparedBatches(new SharedArrayBuffer(slots * (8 + SLOT_BYTES)))
  }

  static attach(shared: SharedArrayBuffer): PreparedBatches {
    return new PreparedBatches(shared)
  }

  private constructor(shared: SharedArrayBuffer) {
    this.shared = shared
    const slots = shared.byteLength / (8 + SLOT_BYTES)
    this.#states = new Int32Array(shared, 0, 2 * slots)
    this.#slots = Array.from({ length: slots }, (_, slot) => slotAt(shared, 8 * slots + slot * SLOT_BYTES))
  }

  /** Main: gives the slot to a request that a lane is to prepare. @returns the request's ticket (S1) */
  queue(slot: number): number {
    const ticket = (Math.floor(this.#states[2 * slot]! / STATES) + 1) % TICKETS_MAX
    Atomics.store(this.#states, 2 * slot, ticket * STATES + QUEUED)
    return ticket
  }

  /** A lane: begins with the request. False when the sequencer has taken it, or the slot belongs to another one. */
  tryBegin(slot: number, ticket: number): boolean {
    const queued = ticket * STATES + QUEUED
    return Atomics.compareExchange(this.#states, 2 * slot, queued, ticket * STATES + PREPARING) === queued
  }

  /** A lane: ends what `tryBegin` began. */
  end(slot: number, ticket: number, isReady: boolean): void {
    Atomics.store(this.#states, 2 * slot, ticket * STATES + (isReady ? READY : LEFT))
    Atomics.notify(this.#states, 2 * slot)
  }

  /** The sequencer: whether a lane has prepared the request; waits for one that has begun. */
  take(slot: number, ticket: number, stopping: () => boolean): boolean {
    const queued = ticket * STATES + QUEUED
    const found = Atomics.compareExchange(this.#states, 2 * slot, queued, ticket * STATES + TAKEN)
    if (found === queued) return false
    for (;;) {
      const state = Atomics.load(this.#states, 2 * slot) % STATES
      if (state !== PREPARING) return state === READY
      if (stopping()) return false
      Atomics.wait(this.#states, 2 * slot, ticket * STATES + PREPARING, LOOK_MS)
    }
  }

  /**
   * S2
   *
   * @param ids four words a record
   * @param body null: it came uncompressed
   * @returns false when the slot has no room for the batch
   */
  write(slot: number, batch: OtlpBatch, ids: Uint32Array, body: Uint8Array | null): boolean {
    const into = this.#slots[slot]!
    const { recordCount, groupCount, resourceCount, schemaUrlCount } = batch
    if (body !== null && body.byteLength > PREPARED_BODY_BYTES_MAX) return false
    const texts: ResourceText[] = Array.from({ length: resourceCount }, (_, i) => [
      batch.resourceTenantClaim[i]!,
      batch.resourceTenantConflict[i]!,
      batch.resourceDataset[i]!,
    ])
    const text = Buffer.from(JSON.stringify(texts))
    if (text.byteLength > TEXT_BYTES_MAX) return false
    const lengths = [
      recordCount,
      groupCount,
      resourceCount,
      schemaUrlCount,
      text.byteLength,
      (body?.byteLength ?? -1) + 1,
    ]
    into.head.set(lengths)
    for (const [i, column] of COLUMNS.entries()) {
      into.columns[i]!.set(batch[column].subarray(0, rowsOf(column, batch)))
    }
    for (const [i, column] of SHORT_COLUMNS.entries()) {
      into.shortColumns[i]!.set(batch[column].subarray(0, rowsOf(column, batch)))
    }
    into.traces.set(batch.traceWords.subarray(0, WIDE_WORDS * recordCount))
    into.ids.set(ids.subarray(0, WIDE_WORDS * recordCount))
    copyBytes(text, into.text, 0)
    if (body !== null) copyBytes(body, into.body, 0)
    return true
  }

  /**
   * S2
   *
   * @param batch gets the tables, `ids` the ids
   * @returns the body; null: it came uncompressed. Valid until the outcome of the request is written
   */
  read(slot: number, batch: OtlpBatch, ids: Uint32Array): Buffer | null {
    const { head, columns, shortColumns, traces, ids: itsIds, text, body } = this.#slots[slot]!
    const [recordCount, groupCount, resourceCount, schemaUrlCount, textBytes, bodyBytes] = head
    batch.reset()
    batch.recordCount = recordCount!
    batch.groupCount = groupCount!
    batch.resourceCount = resourceCount!
    batch.schemaUrlCount = schemaUrlCount!
    for (const [i, column] of COLUMNS.entries()) {
      batch[column].set(columns[i]!.subarray(0, rowsOf(column, batch)))
    }
    for (const [i, column] of SHORT_COLUMNS.entries()) {
      batch[column].set(shortColumns[i]!.subarray(0, rowsOf(column, batch)))
    }
    batch.traceWords.set(traces.subarray(0, WIDE_WORDS * recordCount!))
    ids.set(itsIds.subarray(0, WIDE_WORDS * recordCount!))
    const texts = JSON.parse(text.toString('utf8', 0, textBytes)) as ResourceText[] // `write` wrote it
    for (const [i, [claim, conflict, dataset]] of texts.entries()) {
      batch.resourceTenantClaim[i] = claim
      batch.resourceTenantConflict[i] = conflict
      batch.resourceDataset[i] = dataset
    }
    return bodyBytes === 0 ? null : body.subarray(0, bodyBytes! - 1)
  }
}

type Counts = Pick<OtlpBatch, 'recordCount' | 'groupCount' | 'resourceCount'>

const rowsOf = (column: string, { recordCount, groupCount, resourceCount }: Counts): number =>
  column.startsWith('group') ? groupCount : column.startsWith('resource') ? resourceCount : recordCount

function slotAt(shared: SharedArrayBuffer, from: number): Slot {
  let at = from
  const words = (count: number): Uint32Array => {
    const made = new Uint32Array(shared, at, count)
    at += 4 * count
    return made
  }
  const shorts = (): Uint16Array => {
    const made = new Uint16Array(shared, at, CAPACITY)
    at += 2 * CAPACITY
    return made
  }
  const bytes = (count: number): Buffer => {
    const made = Buffer.from(shared, at, count)
    at += count
    return made
  }
  return {
    head: words(HEAD_WORDS),
    columns: COLUMNS.map(() => words(CAPACITY)),
    traces: words(WIDE_WORDS * CAPACITY),
    ids: words(WIDE_WORDS * CAPACITY),
    shortColumns: SHORT_COLUMNS.map(shorts),
    text: bytes(TEXT_BYTES_MAX),
    body: bytes(PREPARED_BODY_BYTES_MAX),
  }
}
