/** A GrpcFront in front of an ingest that the test plays, and clients that speak to it. */
import assert from 'node:assert/strict'
import { randomFillSync } from 'node:crypto'
import { Client, Metadata, credentials, status } from '@grpc/grpc-js'
import type { CallOptions, ChannelOptions, ServiceError } from '@grpc/grpc-js'
import type { Caller } from '../../../src/logstore/tenants/caller.ts'
import type { ExportParts } from '../../../src/logstore/grpc/export-call.ts'
import { EXPORT_METHODS } from '../../../src/logstore/grpc/export-methods.ts'
import { GrpcFront } from '../../../src/logstore/grpc/grpc-front.ts'
import type { GrpcParts } from '../../../src/logstore/grpc/grpc-front.ts'
import type { WaitedClient } from '../../../src/http/slow-clients.ts'
import { BodyGatherer } from '../../../src/logstore/ingest/body-gatherer.ts'
import type { AcceptedOutcome, IngestClient } from '../../../src/logstore/ingest/ingest.ts'
import { AdmissionSlots } from '../../../src/logstore/tenants/admission-slots.ts'
import { refusal } from '../../../src/logstore/refusals.ts'
import type { Refusal, RefusalKind } from '../../../src/logstore/refusals.ts'
import {
  DEVELOPMENT_TENANT,
  DEVELOPMENT_TOKEN,
  developmentPolicy,
} from '../../../src/logstore/tenants/tenant-policy-file.ts'
import { Arena } from '../../../src/pipeline/arena.ts'
import { TestClock } from '../../support/http-server.ts'
import { decodeStatus } from '../../support/decode-status.ts'
import type { DecodedStatus } from '../../support/decode-status.ts'

export const BODY_BYTES_MAX = 256 * 1024

export interface Submitted {
  readonly client: IngestClient
  readonly caller: Caller
  readonly body: Buffer
  readonly encoding: number
}

export const acceptedBatch = (records: number): AcceptedOutcome => ({
  records,
  collapsed: 0,
  ids: Buffer.alloc(0),
  rejected: 0,
  rejectedBecause: '',
})

/** Takes slots as Ingest does; `answer` decides what happens to a batch. */
export class PlayedIngest {
  readonly arena = Arena.create(4 * 1024 * 1024)
  readonly slots = new AdmissionSlots(64)
  readonly submitted: Submitted[] = []
  answer: (batch: Submitted) => void = ({ client }) => client.accepted(acceptedBatch(1))

  takeSlot(caller: Caller): Refusal | null {
    return this.slots.tryTake(caller.tenant.id, caller.tenant.limits.concurrentRequests) === 'taken'
      ? null
      : refusal('concurrency_exceeded', 'the gateway has too many requests in flight', 2)
  }

  releaseSlot(caller: Caller): void {
    this.slots.release(caller.tenant.id)
  }

  arriving(caller: Caller, client: WaitedClient): void {
    this.slots.arriving(caller.tenant.id, client)
  }

  arrived(client: WaitedClient): void {
    this.slots.arrived(client)
  }

  gatherer(declaredBytes: number): BodyGatherer {
    return new BodyGatherer(this.arena, declaredBytes, () => false)
  }

  submit(client: IngestClient, caller: Caller, gatherer: BodyGatherer, encoding: number): void {
    const gathered = gatherer.finish()
    assert(gathered)
    const body = Buffer.from(this.arena.bytes.subarray(gathered.offset, gathered.offset + gathered.bytes))
    gatherer.discard()
    this.releaseSlot(caller)
    const batch = { client, caller, body, encoding }
    this.submitted.push(batch)
    this.answer(batch)
  }
}

/** Counts the tasks that still wait for their time. */
class CountingClock extends TestClock {
  waiting = 0

  override every(everyMs: number, run: () => void): () => void {
    const stop = super.every(everyMs, run)
    let running = true
    this.waiting++
    return () => {
      if (running) this.waiting--
      running = false
      stop()
    }
  }
}

export interface Outcome {
  readonly code: status
  readonly message: string
  /** From grpc-status-details-bin; null when there is none. */
  readonly status: DecodedStatus | null
  readonly response: Buffer | null
  /** From the answer's metadata; '' when there is none. */
  readonly requestId: string
}

export const goodMetadata = (): Metadata => metadataOf(DEVELOPMENT_TENANT, `Bearer ${DEVELOPMENT_TOKEN}`)

export function metadataOf(tenant: string | null, authorization: string | null): Metadata {
  const metadata = new Metadata()
  if (tenant !== null) metadata.set('x-logstore-tenant', tenant)
  if (authorization !== null) metadata.set('authorization', authorization)
  return metadata
}

export class GrpcRig {
  readonly ingest = new PlayedIngest()
  readonly clock = new CountingClock()
  readonly refused: RefusalKind[] = []
  /** Route, status and bytes received of each call that ended. */
  readonly ended: [route: string, status: number, receivedBytes: number][] = []
  logged: (details: object, message: string) => void = (details) => assert.fail(JSON.stringify(details))
  readonly parts: GrpcParts & ExportParts = {
    ingest: this.ingest,
    policy: developmentPolicy,
    maxBodyBytes: BODY_BYTES_MAX,
    counters: { refused: (kind) => void this.refused.push(kind) },
    requests: { ended: (route, code, _seconds, received) => void this.ended.push([route, code, received]) },
    clock: this.clock,
    random: (bytes) => void randomFillSync(bytes),
    logger: { error: (details, message) => this.logged(details, message) },
  }
  readonly #clients: Client[] = []
  #front: GrpcFront | null = null

  static async start(): Promise<GrpcRig> {
    const rig = new GrpcRig()
    rig.#front = await GrpcFront.listen({ host: '127.0.0.1', port: 0, setting: 'TEST_BIND' }, rig.parts)
    rig.front.serve(rig.parts)
    rig.clock.waiting = 0 // the front's own tasks are no call's
    return rig
  }

  get front(): GrpcFront {
    assert(this.#front)
    return this.#front
  }

  client(options: ChannelOptions = {}): Client {
    const client = new Client(`127.0.0.1:${this.front.port}`, credentials.createInsecure(), {
      'grpc.max_send_message_length': -1,
      'grpc.use_local_subchannel_pool': 1,
      ...options,
    })
    this.#clients.push(client)
    return client
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close()
    await this.front.close({ withinMs: 1000 })
  }
}

/** Serializer of messages, which tests write and read as bytes. */
export const asIs = (bytes: Buffer): Buffer => bytes

/** One export as every OTLP client makes it; resolves whatever the answer. */
export function exportOnce(
  client: Client,
  message: Buffer,
  metadata = goodMetadata(),
  options: CallOptions = {},
  method = 0,
  signal?: AbortSignal,
): Promise<Outcome> {
  const { path } = EXPORT_METHODS[method]!
  return new Promise((resolve) => {
    let headers = new Metadata()
    const call = client.makeUnaryRequest(path, asIs, asIs, message, metadata, options, (error, response) =>
      resolve(outcomeOf(error, response ?? null, headers)),
    )
    call.on('metadata', (received: Metadata) => {
      headers = received
    })
    signal?.addEventListener('abort', () => call.cancel())
  })
}

/** @param headers  what came before the response; a refusal has nothing before its status */
export function outcomeOf(error: ServiceError | null, response: Buffer | null, headers = new Metadata()): Outcome {
  const requestId = (error?.metadata ?? headers).get('x-request-id').join()
  if (!error) return { code: status.OK, message: '', status: null, response, requestId }
  const details = error.metadata.get('grpc-status-details-bin')[0]
  return {
    code: error.code,
    message: error.details,
    status: details === undefined ? null : decodeStatus(Buffer.from(details)),
    response: null,
    requestId,
  }
}
