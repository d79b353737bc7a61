/** `GET /v1/traces/{trace_id}`: the spans and log records of a trace over every dataset that the credential may read. */
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import type { Endpoint, OperationDocument } from '../../http/routes.ts'
import { JSON_TYPE } from '../../http/text-answer.ts'
import { freeMemory } from '../../free-memory.ts'
import { DEADLINE_MAX_MS } from '../query/request.ts'
import { processNowMs } from '../query/task.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import type { AdmissionSlots } from '../tenants/admission-slots.ts'
import { isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import type { Readers } from './readers.ts'

export class TraceFront {
  readonly #readers: Readers
  readonly #slots: AdmissionSlots

  /** @param slots the slots of short reads */
  constructor(readers: Readers, slots: AdmissionSlots) {
    this.#readers = readers
    this.#slots = slots
  }

  endpoint(document: OperationDocument): Endpoint {
    return { document, begin: (head, exchange) => this.#begin(head, exchange) }
  }

  #begin(head: RequestHead, exchange: Exchange): void {
    const caller = this.#readers.admit(head, exchange, this.#slots)
    if (caller === null) return
    const traceId = (head.param(0) ?? '').toLowerCase()
    if (!/^[0-9a-f]{32}$/.test(traceId)) {
      return void this.#readers.refuse(exchange, refusal('invalid_query', 'a trace id has 32 hexadecimal digits'))
    }
    this.#answer(exchange, caller, traceId).catch((error: unknown) => exchange.fail(error))
  }

  async #answer(exchange: Exchange, caller: Caller, traceId: string): Promise<void> {
    const startedMs = processNowMs()
    const request = { kind: 'trace', form: 'tree', traceId, deadlineMs: DEADLINE_MAX_MS } as const
    const body = await this.#readers.step(caller, request)
    if (isRefusal(body)) return void this.#readers.refuse(exchange, body)
    if (body.text.byteLength === 0) return void this.#readers.refuse(exchange, traceNotFound(body.quarantined))
    this.#readers.parts.counters.answered('trace_id', processNowMs() - startedMs)
    exchange.onEnd(() => freeMemory(body.text))
    exchange.answer(200, JSON_TYPE, body.text)
  }
}

export const traceNotFound = (damaged: number): Refusal =>
  refusal(
    'trace_not_found',
    damaged === 0
      ? 'no record of this trace is stored in a dataset that the credential may read'
      : `the ${damaged} stored records of this trace are damaged`,
  )
