/**
 * The life of a further decode lane: it decompresses, scans and hashes batches before the sequencer (decode-loop.ts) takes them. It judges nothing, keeps
 * nothing from one request to the next, and leaves to the sequencer what is rare or may be refused.
 */
import { receiveMessageOnPort } from 'node:worker_threads'
import type { MessagePort } from 'node:worker_threads'
import { MalformedBatchError, OtlpBatch, RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import { isStop } from '../../pipeline/lane-task.ts'
import { SpscRing } from '../../pipeline/spsc-ring.ts'
import { BatchIdentifier } from '../index/identify.ts'
import { scanBatch } from '../index/scan-batch.ts'
import { NAME_BYTES_MAX } from '../limits.ts'
import { PoliciesInUse } from '../tenants/policies-in-use.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import { UNKNOWN_DATASET } from './batch-intake.ts'
import { decompress } from './decompress.ts'
import type { PrepareLaneControl, PrepareLaneData } from './lane-data.ts'
import { ENCODINGS, readRequest } from './messages.ts'
import type { IngestRequest } from './messages.ts'
import { PreparedBatches } from './prepared-batches.ts'

const IDLE_MS = 1000

export function runPrepareLane(port: MessagePort, data: PrepareLaneData): void {
  const requests = SpscRing.attach(data.requests)
  const prepared = PreparedBatches.attach(data.prepared)
  const preparer = new BatchPreparer(Buffer.from(data.arena), prepared, data.maxBodyBytes, data.policy)
  let isRunning = true
  /** False: the lane must stop. */
  const hear = (): boolean => {
    for (let received = receiveMessageOnPort(port); received; received = receiveMessageOnPort(port)) {
      if (isStop(received.message)) isRunning = false
      else preparer.applyPolicy((received.message as PrepareLaneControl).policy) // ingest/decode-lane.ts posts nothing else
    }
    return isRunning
  }
  while (hear()) {
    requests.waitForMessage(IDLE_MS)
    for (let at = requests.next(); at >= 0; at = requests.next()) {
      const request = readRequest(requests.bytes, at)
      requests.release()
      if (!prepared.tryBegin(request.preparedSlot, request.ticket)) continue
      if (request.policyGeneration !== preparer.policyGeneration) hear()
      prepared.end(request.preparedSlot, request.ticket, preparer.prepare(request))
    }
  }
}

class BatchPreparer {
  readonly #arena: Buffer
  readonly #prepared: PreparedBatches
  readonly #maxBodyBytes: number
  readonly #policies: PoliciesInUse
  readonly #batch = new OtlpBatch()
  readonly #identifier = new BatchIdentifier()

  constructor(arena: Buffer, prepared: PreparedBatches, maxBodyBytes: number, policy: TenantPolicy) {
    this.#arena = arena
    this.#prepared = prepared
    this.#maxBodyBytes = maxBodyBytes
    this.#policies = new PoliciesInUse(policy)
  }

  get policyGeneration(): number {
    return this.#policies.generation
  }

  applyPolicy(policy: TenantPolicy): void {
    this.#policies.add(policy)
  }

  /** False: the batch is left to the sequencer. */
  prepare(request: IngestRequest): boolean {
    const { id, options } = this.#policies.of(request.policyGeneration).tenants[request.tenant]!
    if (options.recordsPerBatchMax > RECORDS_PER_BATCH_MAX || options.partialSuccess) return false
    const stored = this.#arena.subarray(request.bodyOffset, request.bodyOffset + request.bodyBytes)
    const body = decompress(stored, ENCODINGS[request.encoding]!, this.#maxBodyBytes)
    if (!(body instanceof Uint8Array) || body.byteLength === 0) return false
    const batch = this.#batch
    try {
      scanBatch(batch, body, request.signal, request.format)
    } catch (error) {
      if (error instanceof MalformedBatchError) return false
      throw error
    }
    if (batch.recordCount === 0 || batch.recordCount > options.recordsPerBatchMax) return false
    const datasets = batch.resourceDataset.slice(0, batch.resourceCount).map((name) => name ?? UNKNOWN_DATASET)
    if (datasets.some((name) => Buffer.byteLength(name) > NAME_BYTES_MAX)) return false
    this.#identifier.identify(batch, body, id, request.signal, datasets)
    return this.#prepared.write(request.preparedSlot, batch, this.#identifier.ids, body === stored ? null : body)
  }
}
