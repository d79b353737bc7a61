/**
 * Audit events of access: callers that were refused, and files of the operator that were read again.
 *
 * U1  at most one refusal a second and principal: a client that is refused in a loop must not fill the log
 * U2  unknown credentials have no tenant: their event goes to the operator's tenant, at most one a second for all together, with their
 *     number. Requests without any credentials make no event
 * U3  an event that the log does not take is lost. The request is answered as it would be otherwise
 */
import type { Core } from '../engine/core.ts'
import type { Caller } from '../operations.ts'

const REFUSALS_EVERY_MS = 1000
/** The principal of a caller whose credentials are unknown. */
const UNKNOWN = 'unknown'
/** Principals that are remembered. */
const REMEMBERED_MAX = 10_000

type Reloaded = 'credentials_reloaded' | 'certificates_reloaded' | 'quotas_reloaded' | 'replication_binding_reloaded'

export class AccessAudit {
  readonly #core: Core
  readonly #nowMs: () => number
  /** Time of the last event by tenant and principal, oldest first. */
  readonly #last = new Map<string, number>()
  readonly #operator: string
  /** U2 */
  #lastUnidentifiedMs = -Infinity
  #unidentified = 0

  /**
   * @param nowMs    monotonic
   * @param operator the tenant of events that belong to no other tenant
   */
  constructor(core: Core, nowMs: () => number, operator: string) {
    this.#core = core
    this.#nowMs = nowMs
    this.#operator = operator
  }

  /** U2 */
  unidentified(message: string, remoteAddress: string): void {
    this.#unidentified += 1
    const nowMs = this.#nowMs()
    if (nowMs - this.#lastUnidentifiedMs < REFUSALS_EVERY_MS) return
    const detail = { message, remote_address: remoteAddress, refusals: this.#unidentified }
    this.#lastUnidentifiedMs = nowMs
    this.#unidentified = 0
    this.#append({ tenant: this.#operator, principal: UNKNOWN }, 'authentication_failed', null, detail)
  }

  /** U1 */
  refused(caller: Caller, message: string, stream: string | null): void {
    const { tenant, principal } = caller
    const name = JSON.stringify([tenant, principal])
    const nowMs = this.#nowMs()
    if (nowMs - (this.#last.get(name) ?? -Infinity) < REFUSALS_EVERY_MS) return
    this.#last.delete(name)
    this.#last.set(name, nowMs)
    if (this.#last.size > REMEMBERED_MAX) this.#last.delete(this.#last.keys().next().value!)
    this.#append(caller, 'authorization_denied', stream, { message })
  }

  /** The operator's files were read again. @param tenants the tenants that the files are about */
  reloaded(kind: Reloaded, tenants: Iterable<string>): void {
    for (const tenant of tenants) this.#append({ tenant, principal: 'operator' }, kind, null, {})
  }

  /** U3 */
  #append(caller: Caller, kind: string, stream: string | null, detail: Record<string, unknown>): void {
    const core = this.#core
    const { before, frame } = core.audited(caller, 'finish', (event) => {
      return { kind: 'audit', event_kind: kind, event_id: null, ...event, stream, detail }
    })
    core.engine.appendSilently([...before, frame])
  }
}
