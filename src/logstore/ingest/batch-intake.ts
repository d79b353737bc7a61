/**
 * The decode lane's work on one request: from the bytes in the arena to a frame in the log's ring and an outcome for the main
 * thread. It depends on no thread: everything it touches is passed in.
 *
 * The order of refusals is the contract's: decompression and decode, record count, tenant claim, dataset, gateway budget, tenant
 * window. A refused batch uses up nothing and leaves nothing.
 *
 * N1  the outcome is written before the frame is published: a thread that learns that the frame is durable finds the outcome
 * N2  a record is appended to the index before its frame is published, and readers see it only once the log is committed past it
 * N3  a batch whose records were all stored before writes no frame; its answer waits for everything appended so far
 * N4  after a recovery of the log in place the lane accepts nothing any more: its indexes may describe frames that are gone
 * N5  a batch beyond RECORDS_PER_BATCH_MAX, or with records that were dropped, is stored as the parts that splitBatch makes of it, one frame each.
 *     It is booked as a whole and answered with its last frame. If the room ends after its first frame, the others take the log's reserve, which is
 *     larger than a body. If the batch breaks off, as when a disk fails in between, the sender repeats it, and the stored parts are recognised. A batch
 *     that only begins like a stored one is stored whole. Identical records in different parts have different ids, and the id of a record without a
 *     time depends on the digest of the whole batch
 */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { crc32 } from '../../../native-free-codecs/crc32.ts'
import { MalformedBatchError, OtlpBatch, RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import { splitBatch } from '../../../native-free-codecs/otlp-split.ts'
import type { BatchForm } from '../../../native-free-codecs/otlp-split.ts'
import type { Position } from '../../log/log-writer.ts'
import {
  BATCH_FRAME_TYPE,
  FLAG_COLLAPSED,
  flagsOfEarlier,
  FORMAT_JSON,
  batchHeadBytes,
  encodeNames,
  signalName,
  writeBatchHead,
} from '../batch-frame.ts'
import { NAME_BYTES_MAX, TENANT_BATCH_RECORDS_MAX } from '../limits.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import { mayUseDataset } from '../tenants/tenant-policy.ts'
import type { Tenant, TenantPolicy } from '../tenants/tenant-policy.ts'
import { decompress } from './decompress.ts'
import type { DatasetCounts } from './dataset-counts.ts'
import { EarlierPartCounts } from './earlier-part-counts.ts'
import type { PartOfBatch } from './earlier-part-counts.ts'
import type { GatewayBudget, GatewayLimits } from './gateway-budget.ts'
import { BatchIdentifier, hasTimeless } from '../index/identify.ts'
import { appendRecords } from '../index/index-frame.ts'
import { exceeded, logStopped, neverFits, storedInPart, unavailable } from './intake-refusals.ts'
import { ENCODINGS, NOT_PREPARED } from './messages.ts'
import type { IngestRequest } from './messages.ts'
import { openSegment } from './open-segment.ts'
import type { SegmentParts } from './open-segment.ts'
import { writeAccepted, writeRefused } from './outcomes.ts'
import type { StoredBatchAnswer } from './outcomes.ts'
import type { PreparedBatches } from './prepared-batches.ts'
import { PoliciesInUse } from '../tenants/policies-in-use.ts'
import { TenantWindows } from '../tenants/tenant-windows.ts'
import { scanBatch } from '../index/scan-batch.ts'
import { claimRefusal } from './tenant-claims.ts'

/** Dataset of a resource without `service.name`. */
export const UNKNOWN_DATASET = 'unknown_service'

export interface BatchIntakeParts extends SegmentParts {
  readonly arena: Buffer
  readonly gateway: GatewayBudget
  readonly datasets: Pick<DatasetCounts, 'add'>
  readonly gatewayLimits: GatewayLimits
  readonly maxBodyBytes: number
  /** Null: no lane prepares batches. */
  readonly prepared: PreparedBatches | null
  /** Monotonic milliseconds. */
  readonly now: () => number
}

export class BatchIntake {
  readonly #parts: BatchIntakeParts
  /** The batch at hand: one of the next two. */
  #batch: OtlpBatch
  readonly #narrow = new OtlpBatch()
  /** Made when the first tenant that may send larger batches does so. */
  #wide: OtlpBatch | null = null
  readonly #identifier = new BatchIdentifier()
  readonly #flags = new Uint16Array(RECORDS_PER_BATCH_MAX)
  /** The distinct datasets of the batch, and their numbers. */
  readonly #datasets: string[] = []
  readonly #datasetNumbers = new Map<string, number>()
  readonly #resourceDataset = new Uint16Array(TENANT_BATCH_RECORDS_MAX)
  readonly #datasetNames: string[] = []
  readonly #windows = new TenantWindows()
  /** The generation of the log whose frames the indexes describe. A recovery in place begins a new one, for which another lane starts over. */
  readonly #generation: number
  readonly #policies: PoliciesInUse
  /** True when the identifier has the ids of the batch at hand already. */
  #isIdentified = false
  /** Made when the first large batch comes. */
  #earlierParts: EarlierPartCounts | null = null
  /** Positions of frames after which a batch may have broken off: the last frame that this lane found at its start, and each frame before a refused part. */
  readonly #brokenOffBehind = new Set<Position>()
  /** Whether the tenant's window had room for the batch at hand. */
  #windowHadRoom = true
  /** True when an outcome waits that no commit will announce. */
  #mustWake = false

  constructor(parts: BatchIntakeParts, policy: TenantPolicy) {
    this.#parts = parts
    this.#generation = parts.writer.generation
    this.#policies = new PoliciesInUse(policy)
    this.#batch = this.#narrow
    const { base, index } = parts.seen.active
    if (index.appended > 0) this.#brokenOffBehind.add(base + index.frameOffset[index.appended - 1]!)
  }

  get policyGeneration(): number {
    return this.#policies.generation
  }

  applyPolicy(policy: TenantPolicy): void {
    this.#policies.add(policy)
    this.#windows.applyPolicy(policy, this.#parts.now())
  }

  /** Whether the main thread must be woken. Resets the flag. */
  takeMustWake(): boolean {
    const mustWake = this.#mustWake
    this.#mustWake = false
    return mustWake
  }

  /** Handles one request to its outcome. @returns false when its tenant's window had no room for it */
  take(request: IngestRequest): boolean {
    this.#windowHadRoom = true
    const refused = this.#admit(request)
    if (refused) this.#refuse(request, refused)
    return this.#windowHadRoom
  }

  #admit(request: IngestRequest): Refusal | null {
    const { arena, writer, maxBodyBytes, prepared } = this.#parts
    if (writer.readOnly) return logStopped()
    const tenant = this.#policies.of(request.policyGeneration).tenants[request.tenant]!
    const stored = arena.subarray(request.bodyOffset, request.bodyOffset + request.bodyBytes)
    this.#isIdentified = this.#isPrepared(request)
    if (this.#isIdentified) {
      this.#batch = this.#narrow
      const own = prepared!.read(request.preparedSlot, this.#narrow, this.#identifier.ids)
      return (
        claimRefusal(this.#batch, tenant) ??
        this.#resolveDatasets(tenant, request.credential) ??
        this.#book(request, tenant, own ?? stored, own === null)
      )
    }
    const body = decompress(stored, ENCODINGS[request.encoding]!, maxBodyBytes)
    if (!(body instanceof Uint8Array)) return body
    return (
      this.#decode(request, tenant, body) ??
      claimRefusal(this.#batch, tenant) ??
      this.#resolveDatasets(tenant, request.credential) ??
      this.#book(request, tenant, body, body === stored)
    )
  }

  #isPrepared({ preparedSlot, ticket }: IngestRequest): boolean {
    const { prepared, stopping } = this.#parts
    return prepared !== null && preparedSlot !== NOT_PREPARED && prepared.take(preparedSlot, ticket, stopping)
  }

  #decode(request: IngestRequest, { options }: Tenant, body: Uint8Array): Refusal | null {
    if (body.byteLength === 0) return refusal('empty_batch', 'the body is empty')
    const batch = options.recordsPerBatchMax > RECORDS_PER_BATCH_MAX ? this.#wideBatch() : this.#narrow
    this.#batch = batch
    batch.isLenient = options.partialSuccess
    try {
      scanBatch(batch, body, request.signal, request.format)
    } catch (error) {
      if (error instanceof MalformedBatchError) return refusal('malformed_batch', error.message)
      throw error
    }
    if (batch.recordCount === 0) {
      if (batch.rejectedCount > 0) return refusal('malformed_batch', batch.rejectedBecause)
      return refusal(
        'empty_batch',
        `the batch has no ${signalName(request.signal) === 'log' ? 'log records' : 'spans'}`,
      )
    }
    const records = batch.recordCount + batch.rejectedCount
    const { recordsPerBatchMax } = options
    if (records > recordsPerBatchMax) {
      const message = `a batch holds at most ${recordsPerBatchMax} records, this one has ${records}: set the exporter's batch size to ${recordsPerBatchMax} or less`
      return refusal('batch_too_large', message)
    }
    return null
  }

  #wideBatch(): OtlpBatch {
    return (this.#wide ??= new OtlpBatch(TENANT_BATCH_RECORDS_MAX))
  }

  #resolveDatasets(tenant: Tenant, credential: number): Refusal | null {
    const batch = this.#batch
    const datasets = this.#datasets
    const numbers = this.#datasetNumbers
    datasets.length = 0
    numbers.clear()
    for (let resource = 0; resource < batch.resourceCount; resource++) {
      const dataset = batch.resourceDataset[resource] ?? UNKNOWN_DATASET
      let number = numbers.get(dataset)
      if (number === undefined) {
        if (Buffer.byteLength(dataset) > NAME_BYTES_MAX) {
          return refusal('malformed_batch', `service.name is longer than ${NAME_BYTES_MAX} bytes`)
        }
        if (!mayUseDataset(tenant.credentials[credential]!, dataset)) {
          return refusal(
            'dataset_not_authorized',
            'the credential is not allowed for the dataset named by service.name',
          )
        }
        number = datasets.push(dataset) - 1
        numbers.set(dataset, number)
      }
      this.#resourceDataset[resource] = number
      this.#datasetNames[resource] = dataset
    }
    return null
  }

  /** Books gateway budget and window, then stores; gives both back when storing is refused. */
  #book(request: IngestRequest, tenant: Tenant, body: Uint8Array, inArena: boolean): Refusal | null {
    const { gateway, gatewayLimits } = this.#parts
    const records = this.#batch.recordCount
    const bytes = body.byteLength
    if (records > gatewayLimits.records)
      return neverFits('record_quota_exceeded', `${records} records are more than the gateway admits at once`)
    if (bytes > gatewayLimits.bytes)
      return neverFits('byte_quota_exceeded', `${bytes} bytes are more than the gateway admits at once`)
    const booked = gateway.tryBook(gatewayLimits, records, bytes)
    if (booked !== 'booked') {
      const kind = booked === 'records' ? 'record_quota_exceeded' : 'byte_quota_exceeded'
      return refusal(kind, `the gateway has too many ${booked} in flight`)
    }
    const window = this.#windows.of(tenant)
    const verdict = window.admit(this.#parts.now(), records, bytes)
    if (verdict.kind !== 'admitted') {
      gateway.release(records, bytes)
      this.#windowHadRoom = false
      return exceeded(verdict)
    }
    const refused = this.#store(request, tenant, body, inArena)
    if (refused) {
      gateway.release(records, bytes)
      window.undoAdmit(records, bytes)
    }
    return refused
  }

  /** Counts `#batch` for its datasets. The bytes of a batch with several datasets are divided by their numbers of records. */
  #count(tenant: string, records: number, bytes: number): void {
    const { datasets } = this.#parts
    const [only] = this.#datasets
    if (this.#datasets.length === 1) return datasets.add(tenant, only!, records, bytes)
    const { recordGroup, groupResource } = this.#batch
    const recordsOf = this.#datasets.map(() => 0)
    for (let record = 0; record < records; record++) {
      recordsOf[this.#resourceDataset[groupResource[recordGroup[record]!]!]!]! += 1
    }
    for (const [i, dataset] of this.#datasets.entries()) {
      datasets.add(tenant, dataset, recordsOf[i]!, (bytes * recordsOf[i]!) / records)
    }
  }

  #store(request: IngestRequest, tenant: Tenant, body: Uint8Array, inArena: boolean): Refusal | null {
    const { recordCount, rejectedCount: rejected, rejectedBecause } = this.#batch
    const answer = { records: recordCount, bytes: body.byteLength, collapsed: 0, rejected, rejectedBecause }
    if (recordCount <= RECORDS_PER_BATCH_MAX && rejected === 0) {
      const ids = this.#identifier.ids.subarray(0, 4 * recordCount)
      const refused = this.#storePart(request, tenant, body, inArena, null, (position, collapsed) =>
        this.#accept(request, position, { ...answer, ids, collapsed }),
      )
      if (refused === null) this.#count(tenant.id, recordCount, body.byteLength)
      return refused
    }
    // N5
    const isByBatch = tenant.options.deduplication === 'batches'
    const isNew = isByBatch && !this.#parts.seen.beginBatch(this.#batch)
    const whole = hasTimeless(this.#batch) ? hash('sha256', body, 'buffer') : null
    const parts = splitBatch(this.#batch, body, formOf(request), RECORDS_PER_BATCH_MAX, whole)
    const earlier = (this.#earlierParts ??= new EarlierPartCounts())
    this.#batch = this.#narrow
    this.#narrow.isLenient = false
    const stored = isNew ? 0 : isByBatch ? this.#partsStored(request, tenant, parts, earlier) : null
    earlier.begin()
    const ids = new Uint32Array(4 * recordCount)
    let records = 0
    let collapsed = 0
    let isBegun = false
    for (const [number, part] of parts.entries()) {
      this.#beginPart(request, tenant, part)
      const refused = this.#storePart(
        request,
        tenant,
        part,
        false,
        { earlier, isStored: stored === null ? null : number < stored, isBegun },
        (position, collapsedOfPart) => {
          ids.set(this.#identifier.ids.subarray(0, 4 * this.#narrow.recordCount), 4 * records)
          records += this.#narrow.recordCount
          collapsed += collapsedOfPart
          isBegun ||= collapsedOfPart < this.#narrow.recordCount
          if (number === parts.length - 1) this.#accept(request, position, { ...answer, ids, collapsed })
        },
      )
      if (refused && number > 0) this.#brokenOffBehind.add(this.#parts.writer.position)
      if (refused) return number > 0 ? storedInPart(refused) : refused
      this.#count(tenant.id, this.#narrow.recordCount, part.byteLength)
    }
    assert.equal(records, recordCount)
    return null
  }

  #beginPart(request: IngestRequest, tenant: Tenant, part: Buffer): void {
    scanBatch(this.#narrow, part, request.signal, request.format)
    const refused = this.#resolveDatasets(tenant, request.credential)
    assert(refused === null, 'the whole batch was asked')
  }

  /** N5. How many of the first parts of this batch are stored already: all, those before it broke off, or 0. */
  #partsStored(request: IngestRequest, tenant: Tenant, parts: readonly Buffer[], earlier: EarlierPartCounts): number {
    const { seen } = this.#parts
    let last = -1
    earlier.begin()
    for (const [number, part] of parts.entries()) {
      this.#beginPart(request, tenant, part)
      this.#identifier.identify(this.#narrow, part, tenant.id, request.signal, this.#datasetNames, earlier)
      const place = seen.beginBatch(this.#narrow)
        ? seen.placeOfBatch(this.#identifier.ids, this.#narrow.recordCount)
        : null
      if (place === null || place < last) return this.#brokenOffBehind.has(last) ? number : 0
      last = place
    }
    return parts.length
  }

  /**
   * Stores what `#batch` describes in one frame, or in none when all of it is stored already.
   *
   * @param part null: the batch is not split
   * @param done called before the frame is published (N1), with the position behind it and how many records are stored already
   */
  #storePart(
    request: IngestRequest,
    tenant: Tenant,
    body: Uint8Array,
    inArena: boolean,
    part: PartOfBatch | null,
    done: (position: number, collapsed: number) => void,
  ): Refusal | null {
    const { writer, seen } = this.#parts
    const batch = this.#batch
    if (!this.#isIdentified) {
      this.#identifier.identify(batch, body, tenant.id, request.signal, this.#datasetNames, part?.earlier ?? null)
    }
    const collapsed = this.#markSeen(tenant, part)
    if (collapsed === batch.recordCount) {
      const { tail } = writer
      if (this.#isStale()) return unavailable('the log was recovered')
      done(tail, collapsed)
      this.#mustWake ||= writer.committed >= tail // N3: no commit is on its way
      return null
    }
    if (!seen.active.index.hasRoom(batch.recordCount - collapsed, this.#datasets.length)) writer.rotate()
    const names = encodeNames(tenant.id, this.#datasets)
    const headBytes = batchHeadBytes(batch, names)
    const inlineBytes = headBytes + (inArena ? 0 : body.byteLength)
    const refused = this.#beginFrame(
      inlineBytes,
      inArena ? request.bodyOffset : -1,
      inArena ? body.byteLength : 0,
      part?.isBegun ? 'finish' : 'admit',
    )
    if (refused) return refused
    if (this.#isStale()) return unavailable('the log was recovered') // the frame that was begun is never published
    if (writer.opensSegment && !openSegment(this.#parts)) return unavailable('the service is stopping')

    const envelope = {
      signal: request.signal,
      format: request.format,
      source: request.source,
      tenant: tenant.id,
      receivedAtHigh: request.receivedAtHigh,
      receivedAtLow: request.receivedAtLow,
    }
    writeBatchHead(
      writer.bytes,
      writer.inlineOffset,
      envelope,
      batch,
      body.byteLength,
      names,
      this.#datasets.length,
      this.#resourceDataset,
      this.#flags,
    )
    if (!inArena) copyBytes(body, writer.bytes, writer.inlineOffset + headBytes)
    const headCrc = crc32(writer.bytes.subarray(writer.inlineOffset, writer.inlineOffset + headBytes))
    const payloadCrc = crc32(body, headCrc)

    this.#index(request, tenant.id)
    done(writer.end, collapsed) // N1
    writer.publish(payloadCrc)
    return null
  }

  /** N4; the writer notices a recovery when it is asked for its tail or begins a frame. */
  #isStale(): boolean {
    return this.#parts.writer.generation !== this.#generation
  }

  /** How many records are stored already: all or none, unless the policy deduplicates by record. Then it sets FLAG_COLLAPSED on those that are. */
  #markSeen({ options }: Tenant, part: PartOfBatch | null): number {
    const { seen } = this.#parts
    const { recordCount } = this.#batch
    const { ids } = this.#identifier
    if (part === null) this.#flags.fill(0, 0, recordCount)
    else
      for (let record = 0; record < recordCount; record++)
        this.#flags[record] = flagsOfEarlier(part.earlier.identical[record]!)
    if (part !== null && part.isStored !== null) return part.isStored ? recordCount : 0
    if (!seen.beginBatch(this.#batch)) return 0
    if (options.deduplication === 'batches') return seen.placeOfBatch(ids, recordCount) === null ? 0 : recordCount
    let collapsed = 0
    for (let record = 0, at = 0; record < recordCount; record++, at += 4) {
      if (!seen.has(ids[at]!, ids[at + 1]!, ids[at + 2]!, ids[at + 3]!)) continue
      this.#flags[record]! |= FLAG_COLLAPSED
      collapsed++
    }
    return collapsed
  }

  /** Begins the frame, waiting for room in the log's ring: that wait is the back-pressure on this lane. */
  #beginFrame(
    inlineBytes: number,
    externalOffset: number,
    externalBytes: number,
    purpose: 'admit' | 'finish',
  ): Refusal | null {
    const { writer, stopping } = this.#parts
    for (;;) {
      switch (writer.tryBegin(BATCH_FRAME_TYPE, inlineBytes, externalOffset, externalBytes, 'quorum', purpose)) {
        case 'ok':
          return null
        case 'read-only':
          return logStopped()
        case 'no-space':
          return unavailable('the disk is full')
        case 'full':
          if (stopping()) return unavailable('the service is stopping')
          writer.waitForSpace(inlineBytes, 50)
      }
    }
  }

  #index(request: IngestRequest, tenant: string): void {
    const { writer, seen } = this.#parts
    const batch = this.#batch
    const active = seen.active.index
    const numbers = this.#datasets.map((dataset) => active.partitionOf(tenant, dataset))
    const partitions = this.#datasetNames
      .slice(0, batch.resourceCount)
      .map((_, resource) => numbers[this.#resourceDataset[resource]!]!)
    appendRecords(
      active,
      batch,
      this.#identifier.ids,
      this.#flags,
      partitions,
      writer.segmentOffset,
      request.signal,
      request.receivedAtHigh,
      request.receivedAtLow,
    )
  }

  #accept(request: IngestRequest, position: number, stored: StoredBatchAnswer): void {
    writeAccepted(this.#parts.outcomes, request, position, this.#generation, stored)
  }

  #refuse(request: IngestRequest, refused: Refusal): void {
    writeRefused(this.#parts.outcomes, request, refused)
    this.#mustWake = true
  }
}

const formOf = ({ signal, format }: IngestRequest): BatchForm =>
  `${signalName(signal) === 'log' ? 'logs' : 'traces'} ${format === FORMAT_JSON ? 'json' : 'protobuf'}`
