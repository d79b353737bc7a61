/**
 * The common part of reads that take more than one step: permissions, admission slots, and steps on threads that walk. Runs on the main thread.
 *
 * A request holds its slot from its headers to its end, and gives it back once.
 *
 * R2  every step reads only what the caller may read under the policy of that moment
 */
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import { StoreError } from '../../errors.ts'
import type { QueryCounters } from '../counters.ts'
import { askThread } from '../query/query-front.ts'
import type { AskParts } from '../query/query-front.ts'
import { processNowMs } from '../query/task.ts'
import { answerRefusal } from '../replies.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import type { AdmissionSlots } from '../tenants/admission-slots.ts'
import { TENANT_HEADER, callerIn, identifyCaller, isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import { HeldSlot } from '../tenants/held-slot.ts'
import { mayUseDataset } from '../tenants/tenant-policy.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import type { WalkBody, WalkRequest } from '../walk/tasks.ts'

export interface ReaderParts {
  readonly ask: AskParts<WalkRequest, WalkBody>
  readonly policy: () => TenantPolicy
  readonly maxConcurrentReads: number
  readonly counters: QueryCounters
  readonly clock: ReaderClock
}

interface ReaderClock {
  /** Monotonic. */
  nowMs(): number
  /** Calls again and again until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
  /** Calls once. */
  after(delayMs: number, run: () => void): void
}

/** How often, and after how long, a step is tried again that failed for a reason that may pass. */
const RETRIES = 3
const RETRY_MS = 200

export class Readers {
  readonly parts: ReaderParts
  /** Slots of the callers that `admit` returned. */
  readonly #slots = new WeakMap<Caller, HeldSlot>()

  constructor(parts: ReaderParts) {
    this.parts = parts
  }

  /** Takes a slot, which is held until the exchange and its last step have ended. @returns the caller; null: the request is refused */
  admit(head: RequestHead, exchange: Exchange, slots: AdmissionSlots): Caller | null {
    const { policy, maxConcurrentReads } = this.parts
    const caller = identifyCaller(policy(), head.header(TENANT_HEADER), head.header('authorization'))
    if (isRefusal(caller)) return this.refuse(exchange, caller)
    exchange.tenant = caller.tenant.id
    const taken = slots.tryTake(caller.tenant.id, maxConcurrentReads)
    if (taken !== 'taken') {
      const who = taken === 'all' ? 'the service' : 'the tenant'
      return this.refuse(
        exchange,
        refusal('concurrency_exceeded', `${who} has too many reads of this kind in progress`),
      )
    }
    const slot = new HeldSlot(() => slots.release(caller.tenant.id))
    this.#slots.set(caller, slot)
    exchange.onEnd(() => slot.leave())
    return caller
  }

  /** @param dataset null: the caller asks for all that it may read */
  problemOf(caller: Caller, dataset: string | null): Refusal | null {
    const credential = caller.tenant.credentials[caller.credentialNumber]!
    if (dataset === null || mayUseDataset(credential, dataset)) return null
    return refusal('dataset_not_authorized', 'the credential is not allowed for the dataset')
  }

  async step(admitted: Caller, request: WalkRequest): Promise<WalkBody | Refusal> {
    const caller = callerIn(this.parts.policy(), admitted) // R2
    if (isRefusal(caller)) return caller
    const { tenant, credentialNumber } = caller
    const refused = this.problemOf(caller, 'dataset' in request ? request.dataset : null)
    if (refused !== null) return refused
    const { datasets } = tenant.credentials[credentialNumber]!
    const asked = askThread(this.parts.ask, tenant.id, request, processNowMs(), datasets)
    return this.#slots.get(admitted)?.during(asked) ?? asked
  }

  /**
   * A step of an answer that has begun, which a refusal would end: the step is tried again.
   *
   * @param passes whether the reason of a refusal may pass
   */
  async stepWithRetries(
    caller: Caller,
    request: WalkRequest,
    passes = ({ retryable }: Refusal): boolean => retryable,
  ): Promise<WalkBody | Refusal> {
    for (let tries = 0; ; tries++) {
      const body = await this.step(caller, request)
      if (!isRefusal(body) || !passes(body) || tries === RETRIES) return body
      await new Promise<void>((resolve) => this.parts.clock.after(RETRY_MS, resolve))
    }
  }

  refuse(exchange: Exchange, refused: Refusal): null {
    this.parts.counters.refused(refused.kind)
    answerRefusal(exchange, refused, 'json')
    return null
  }
}

/** Ends an answer that has begun: its connection is closed inside the body. */
export class ReadBroke extends StoreError {
  constructor({ kind, message }: Refusal) {
    super('unavailable', kind, message)
  }
}

/** Refuses a parameter that it does not know: without it the request would ask for something else. */
export function queryParameters<Name extends string>(
  query: string,
  names: readonly Name[],
): Partial<Record<Name, string>> | Refusal {
  const known = new Set<string>(names)
  const given: Partial<Record<Name, string>> = {}
  for (const [name, value] of new URLSearchParams(query)) {
    if (!known.has(name))
      return refusal('invalid_query', `the parameters are ${names.join(', ')}: there is no ${quoted(name)}`)
    if (Object.hasOwn(given, name)) return refusal('invalid_query', `the parameter ${name} is there twice`)
    given[name as Name] = value // the set holds only such names
  }
  return given
}

const SHOWN_LENGTH = 40
const quoted = (name: string): string => JSON.stringify(name.slice(0, SHOWN_LENGTH))

/** Bytes of a piece: no more than a connection takes without buffering much. */
const PIECE_BYTES = 64 * 1024

export function* piecesOf(text: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < text.byteLength; at += PIECE_BYTES) yield text.subarray(at, at + PIECE_BYTES)
}
