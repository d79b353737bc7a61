/**
 * Audit events of access: who was refused, and files of the operator that were read again.
 *
 * U1  at most one refusal a second and principal: a client that is refused in a loop must not fill the log
 * U2  credentials that are nobody's have no tenant: the event is the operator's, at most one a second for all of them together, with how many
 *     they were. Requests that bring no credentials at all are none of it
 * U3  an event that the log does not take is lost, and nobody is refused or served another way for it
 */
import type { Core } from '../engine/core.ts'
import type { Caller } from '../operations.ts'

const REFUSALS_EVERY_MS = 1000
/** The principal of a caller whose credentials are nobody's. */
const UNKNOWN = 'unknown'
/** Principals that are remembered. */
const REMEMBERED_MAX = 10_000

type Reloaded = 'credentials_reloaded' | 'certificates_reloaded' | 'quotas_reloaded' | 'replication_binding_reloaded'

export class AccessAudit {
  readonly #core: Core
  readonly #nowMs: () => number
  /** By tenant and principal: when its last event was, in order of time. */
  readonly #last = new Map<string, number>()
  readonly #operator: string
  /** U2 */
  #lastUnidentifiedMs = -Infinity
  #unidentified = 0

  /**
   * @param nowMs    monotonic
   * @param operator tenant of what is no other tenant's
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

  /** The operator's files were read again. @param tenants that what they say is for */
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
