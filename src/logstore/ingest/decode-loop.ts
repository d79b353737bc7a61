/**
 * The life of a decode lane: rebuild the index of the segment that is being written, then take requests until stopped. In a cluster, while another
 * node leads, the lane copies that node's frames (frame-copies.ts).
 *
 * C1  tenants take turns (fair-queue.ts), but a request that was admitted under another policy waits for all requests before it
 */
import { performance } from 'node:perf_hooks'
import { receiveMessageOnPort } from 'node:worker_threads'
import type { MessagePort } from 'node:worker_threads'
import { StoreError } from '../../errors.ts'
import { parentOf } from '../../log/files.ts'
import { LogWriter } from '../../log/log-writer.ts'
import { nodeFiles } from '../../log/node-files.ts'
import { replaySegment } from '../../log/read.ts'
import { isStop } from '../../pipeline/lane-task.ts'
import { yieldCore } from '../../pipeline/niceness.ts'
import { SpscRing } from '../../pipeline/spsc-ring.ts'
import { BATCH_FRAME_TYPE } from '../batch-frame.ts'
import { IDEMPOTENCY_CACHE_BYTES, IDEMPOTENCY_PIECES_BYTES } from '../limits.ts'
import { BlockCache } from '../index/block-cache.ts'
import { openBundle } from '../compact/open-bundle.ts'
import { PieceCache } from '../compact/piece-cache.ts'
import type { BundleSearch } from '../index/reader.ts'
import { LocalSegmentFiles } from '../index/segment-files.ts'
import { BatchIntake } from './batch-intake.ts'
import { DatasetCounts } from './dataset-counts.ts'
import { FairQueue } from './fair-queue.ts'
import { FrameCopies } from './frame-copies.ts'
import { GatewayBudget } from './gateway-budget.ts'
import { FrameIndexer } from '../index/index-frame.ts'
import { LaneRests } from './lane-rests.ts'
import type { DecodeLaneControl, DecodeLaneData, DecodeLaneMessage } from './lane-data.ts'
import type { BundlePlace } from '../index/catalog.ts'
import { readRequest } from './messages.ts'
import type { IngestRequest } from './messages.ts'
import { announceSegment } from './outcomes.ts'
import { PreparedBatches } from './prepared-batches.ts'
import { NO_SEGMENT, SeenRecords } from './seen-records.ts'
import type { SeenBundle } from './seen-records.ts'
import { SegmentIndexes } from '../index/segment-indexes.ts'

/** How long the lane sleeps without requests before it looks at what the log asks of its producer. */
const IDLE_MS = 250

export function runDecodeLane(port: MessagePort, data: DecodeLaneData): void {
  const lane = new DecodeLoop(port, data)
  lane.run()
}

class DecodeLoop {
  readonly #port: MessagePort
  readonly #requests: SpscRing
  readonly #wake: Int32Array
  readonly #writer: LogWriter
  readonly #indexes: SegmentIndexes
  readonly #seen: SeenRecords
  readonly #intake: BatchIntake
  readonly #copies: FrameCopies
  readonly #cache = new BlockCache(IDEMPOTENCY_CACHE_BYTES)
  readonly #pieces = new PieceCache(IDEMPOTENCY_PIECES_BYTES)
  readonly #waiting = new FairQueue<IngestRequest>()
  readonly #rests = new LaneRests(yieldCore)
  /** The policy under which all waiting requests were admitted. */
  #policyGeneration = -1
  /** The next request, admitted under another policy. It waits until the queue is empty (C1). */
  #next: IngestRequest | null = null
  #stopping = false

  constructor(port: MessagePort, data: DecodeLaneData) {
    this.#port = port
    this.#requests = SpscRing.attach(data.requests)
    this.#wake = new Int32Array(data.wake)
    this.#writer = LogWriter.attach(data.writer)
    const outcomes = SpscRing.attach(data.outcomes)
    const indexes = SegmentIndexes.attach(data.indexes)
    this.#indexes = indexes
    const stopping = (): boolean => this.#heardStop()

    const number = indexes.take(stopping)
    const active = { base: data.active?.base ?? NO_SEGMENT, number, index: indexes.at(number) }
    this.#seen = new SeenRecords(
      active,
      data.sealing.map((sealed) => ({ ...sealed, index: indexes.at(sealed.number) })),
    )
    if (data.active) {
      rebuildIndex(data.active, data.logId, active.index)
      announceSegment(outcomes, active.base, number)
    }
    for (const bundle of data.bundles) this.#addBundle(bundle)
    const segmentParts = { writer: this.#writer, outcomes, indexes, seen: this.#seen, stopping }
    this.#copies = new FrameCopies({ ...segmentParts, tell: (message) => this.#post(message) })
    this.#intake = new BatchIntake(
      {
        ...segmentParts,
        arena: Buffer.from(data.arena),
        gateway: GatewayBudget.attach(data.gateway),
        datasets: DatasetCounts.attach(data.datasets),
        gatewayLimits: { records: data.gatewayRecords ?? Infinity, bytes: data.gatewayBytes ?? Infinity },
        maxBodyBytes: data.maxBodyBytes,
        prepared: data.prepared === null ? null : PreparedBatches.attach(data.prepared),
        now: () => performance.now(),
      },
      data.policy,
    )
    this.#post({ kind: 'ready', recoveredRecords: active.index.count })
  }

  run(): void {
    const requests = this.#requests
    while (!this.#stopping) {
      requests.waitForMessage(Math.min(IDLE_MS, Math.max(0, this.#waiting.resumesAtMs - performance.now())))
      this.#hearControl()
      this.#indexes.emptyFree(() => this.#hearControl())
      this.#writer.poll()
      this.#copies.run()
      this.#gather()
      for (let request = this.#nextRequest(); request !== null; request = this.#nextRequest()) {
        const startMs = performance.now()
        if (request.policyGeneration !== this.#intake.policyGeneration) this.#hearControl()
        const windowHadRoom = this.#intake.take(request)
        if (this.#intake.takeMustWake()) this.#wakeMain()
        const endMs = performance.now()
        this.#waiting.served(endMs - startMs, endMs, windowHadRoom)
        this.#rests.noteWork(request.tenant, startMs, endMs)
        this.#gather()
      }
    }
  }

  /** No tenant pauses while a request of another policy waits for all that are queued (C1), or while the lane is stopping. */
  #nextRequest(): IngestRequest | null {
    return this.#waiting.next(this.#next !== null || this.#stopping ? Infinity : performance.now())
  }

  /** Moves all requests from the ring to the queue. Main bounds how many there are. */
  #gather(): void {
    const requests = this.#requests
    for (;;) {
      if (this.#next === null) {
        const at = requests.next()
        if (at < 0) return
        this.#next = readRequest(requests.bytes, at)
        requests.release()
      }
      const { policyGeneration, tenant } = this.#next
      if (policyGeneration !== this.#policyGeneration && !this.#waiting.isEmpty) return // C1
      this.#policyGeneration = policyGeneration
      this.#waiting.add(tenant, this.#next)
      this.#next = null
    }
  }

  #wakeMain(): void {
    if (Atomics.exchange(this.#wake, 0, 1) === 0) this.#post({ kind: 'wake' })
  }

  #post(message: DecodeLaneMessage): void {
    this.#port.postMessage(message)
  }

  #heardStop(): boolean {
    this.#hearControl()
    return this.#stopping
  }

  #hearControl(): void {
    for (let received = receiveMessageOnPort(this.#port); received; received = receiveMessageOnPort(this.#port)) {
      if (isStop(received.message)) this.#stopping = true
      else this.#obey(received.message as DecodeLaneControl) // ingest/decode-lane.ts posts nothing else
    }
  }

  #obey(control: DecodeLaneControl): void {
    switch (control.kind) {
      case 'policy':
        return this.#intake.applyPolicy(control.policy)
      case 'bundle-published':
        this.#seen.closeSealed(control.bundle.base)
        return this.#addBundle(control.bundle)
      case 'bundle-dropped':
        return this.#seen.dropBundle(control.base)
      case 'follow':
        return this.#copies.add(control.frames) // copied later, in `run`: this message may arrive in the middle of a frame
    }
  }

  /** A bundle that cannot be read is reported and left out: its records may then be stored a second time, which loses nothing. */
  #addBundle(place: BundlePlace): void {
    try {
      this.#seen.addBundle(openSeenBundle(place, this.#cache, this.#pieces, (error) => this.#unreadable(place, error)))
    } catch (error) {
      this.#unreadable(place, error)
    }
  }

  #unreadable({ base }: BundlePlace, error: unknown): void {
    if (!(error instanceof StoreError)) throw error
    this.#seen.dropBundle(base)
    this.#post({ kind: 'bundle-unreadable', base, code: error.code })
  }
}

function rebuildIndex(
  active: NonNullable<DecodeLaneData['active']>,
  logId: number,
  index: SeenRecords['active']['index'],
): void {
  const indexer = new FrameIndexer()
  replaySegment(
    nodeFiles,
    { base: active.base, recordsPath: active.recordsPath },
    {
      logId,
      to: active.end,
      onFrame: (frame) => {
        if (frame.type === BATCH_FRAME_TYPE) indexer.add(index, frame.position - active.base, frame.payload)
      },
      onDamage: () => {}, // recovery reported it as a quarantine incident when the log was opened
    },
  )
}

function openSeenBundle(
  place: BundlePlace,
  cache: BlockCache,
  pieces: PieceCache,
  onUnreadable: (error: unknown) => void,
): SeenBundle {
  const index = openBundle(new LocalSegmentFiles(nodeFiles, parentOf(place.directory)), cache, pieces, place)
  let readable = true
  const answer = <Answer>(ask: () => Answer, none: Answer): Answer => {
    try {
      return readable ? ask() : none
    } catch (error) {
      readable = false
      onUnreadable(error)
      return none
    }
  }
  return {
    base: place.base,
    end: place.end,
    records: index.entryCount,
    minTime: Number(index.header.minTime),
    maxTime: Number(index.header.maxTime),
    mayContainId: (w0, w1, w2, w3) => answer(() => index.mayContainId(w0, w1, w2, w3), false),
    receivedUntil: Number(index.header.receivedUntil),
    containsId: (w0, w1, w2, w3) => answer(() => index.findId(w0, w1, w2, w3) !== null, false),
    frameOfBatch: (ids, records, framesMax) => answer(() => frameOfBatch(index, ids, records, framesMax), null),
    close: () => index.close(),
  }
}

/** As seen-records R1. */
function frameOfBatch(index: BundleSearch, ids: Uint32Array, records: number, framesMax: number): number | null {
  let found = index.findId(ids[0]!, ids[1]!, ids[2]!, ids[3]!)
  for (let looked = 0; found !== null && looked < framesMax; looked++) {
    const frame = frameOfBatchAt(index, found.entry, ids, records)
    if (frame !== null) return frame
    found = index.findId(ids[0]!, ids[1]!, ids[2]!, ids[3]!, found.nextRow)
  }
  return null
}

function frameOfBatchAt(index: BundleSearch, first: number, ids: Uint32Array, records: number): number | null {
  const end = first + records
  if (end > index.entryCount) return null
  index.seekEntry(first)
  const { frameOffset, recordNumber } = index
  if (recordNumber !== 0) return null
  if (end < index.entryCount) {
    index.seekEntry(end)
    if (index.frameOffset === frameOffset) return null
  }
  for (let record = 0; record < records; record++) {
    const id = index.idOf(first + record)
    for (let word = 0; word < 4; word++) if (id[word] !== ids[4 * record + word]) return null
  }
  index.seekEntry(end - 1)
  return index.frameOffset === frameOffset && index.recordNumber === records - 1 ? frameOffset : null
}
