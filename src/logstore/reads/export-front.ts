/**
 * `POST /v1/export`: everything that a filter finds, one record a line, in the order of a query's pages.
 *
 * Memory holds the text of one step. An export ends when it meets damage that was not known at its start. The next export knows of it, and counts it.
 *
 * X1  what was stored after the first step does not appear. If the bundles of a bucket below that point have changed since then, the export ends
 * X4  the last line says that the export is complete. An export that is not complete lacks it, and its connection is closed inside the body
 */
import type { Logger } from '../../observability/logger.ts'
import type { AnswerSource, Exchange, RequestHead } from '../../http/exchange.ts'
import type { Endpoint, OperationDocument } from '../../http/routes.ts'
import { gatherBody } from '../../http/body.ts'
import { freeMemory } from '../../free-memory.ts'
import { QUERY_BODY_BYTES_MAX } from '../limits.ts'
import { bodyTooLarge, headProblem } from '../query/query-front.ts'
import { parseQueryRequest } from '../query/request.ts'
import { bodyTimedOut } from '../replies.ts'
import { refusal } from '../refusals.ts'
import { AdmissionSlots } from '../tenants/admission-slots.ts'
import { isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import type { ExportRequest, WalkBody } from '../walk/tasks.ts'
import { ReadBroke, piecesOf } from './readers.ts'
import type { Readers } from './readers.ts'

export const NDJSON_TYPE = 'application/x-ndjson'
/** Exports at a time in the service: each holds the text of a step in memory. */
const EXPORTS_MAX = 64

export class ExportFront {
  readonly #readers: Readers
  readonly #logger: Pick<Logger, 'warn'>
  readonly #slots = new AdmissionSlots(EXPORTS_MAX)

  constructor(readers: Readers, logger: Pick<Logger, 'warn'>) {
    this.#readers = readers
    this.#logger = logger
  }

  endpoint(document: OperationDocument): Endpoint {
    return { document, begin: (head, exchange) => this.#begin(head, exchange) }
  }

  #begin(head: RequestHead, exchange: Exchange): void {
    const caller = this.#readers.admit(head, exchange, this.#slots)
    if (caller === null) return
    const problem = headProblem(head)
    if (problem !== null) return void this.#readers.refuse(exchange, problem)
    this.#slots.arriving(caller.tenant.id, exchange)
    exchange.onEnd(() => this.#slots.arrived(exchange))
    gatherBody(exchange, QUERY_BODY_BYTES_MAX, {
      whole: (body) => {
        this.#slots.arrived(exchange)
        this.#run(exchange, caller, body).catch((error: unknown) => exchange.fail(error))
      },
      tooLarge: () => void this.#readers.refuse(exchange, bodyTooLarge()),
      timedOut: (why) => void this.#readers.refuse(exchange, bodyTimedOut(why)),
    })
  }

  async #run(exchange: Exchange, caller: Caller, body: Buffer): Promise<void> {
    const parsed = parseQueryRequest(body)
    if ('kind' in parsed) return void this.#readers.refuse(exchange, refusal(parsed.kind, parsed.message))
    if (parsed.hasPage) {
      return void this.#readers.refuse(exchange, refusal('invalid_query', 'an export has no pages: leave page out'))
    }
    const { dataset, filter, order, deadlineMs } = parsed
    const request: ExportRequest = { kind: 'export', dataset, filter, order, deadlineMs, resume: null }
    const first = await this.#readers.step(caller, request)
    if (isRefusal(first)) return void this.#readers.refuse(exchange, first)
    exchange.answerStream(200, NDJSON_TYPE, this.#source(caller, request, first), [['cache-control', 'no-store']])
  }

  #source(caller: Caller, request: ExportRequest, first: WalkBody): AnswerSource {
    const lines = this.#pieces(caller, request, first)
    return {
      next: async () => {
        const { value } = await lines.next()
        return value ?? null
      },
      close: () => void lines.return(),
    }
  }

  async *#pieces(caller: Caller, request: ExportRequest, first: WalkBody): AsyncGenerator<Uint8Array, void> {
    let records = 0
    for (let step = first; ;) {
      records += step.records
      yield* piecesOf(step.text)
      freeMemory(step.text)
      if (step.resume === null) {
        yield lastLine(records, first.quarantined, step.quarantinedRanges)
        return
      }
      const given = await this.#readers.stepWithRetries(
        caller,
        { ...request, resume: step.resume },
        ({ kind }) => kind === 'concurrency_exceeded',
      )
      const isKnown = isRefusal(given) || given.quarantinedRanges === first.quarantinedRanges
      const next = isKnown
        ? given
        : refusal('bundle_read_failed', 'damage was found in the log during the export: begin again')
      if (isRefusal(next)) {
        this.#logger.warn({ kind: next.kind, reason: next.message }, 'an export ended before it was complete')
        throw new ReadBroke(next)
      }
      step = next
    }
  }
}

function lastLine(records: number, quarantined: number, ranges: number): Buffer {
  const end = {
    status: 'complete',
    records,
    ...(quarantined > 0 && { quarantined_records: quarantined }),
    ...(ranges > 0 && { quarantined_ranges: ranges }),
  }
  return Buffer.from(`${JSON.stringify({ export: end })}\n`)
}
