/** All streaming connections of the node: limits their number, and passes new credentials and the node's stop on to each. */
import type { ConnectionLimits } from '../../config/broker-connection.ts'
import type { Caller, PushedClaim } from '../operations.ts'
import { refuse } from '../refusals.ts'
import { Session } from './session.ts'
import type { SessionCaller, SessionParts } from './session.ts'

export type ConnectionsParts = Pick<
  SessionParts,
  'operations' | 'onDenied' | 'onFailure' | 'counters' | 'bodyBytesMax' | 'limits' | 'defer' | 'turn'
>

export interface NewConnection {
  readonly who: SessionCaller
  /** Looks the credentials up once more. @throws BrokerError when they are no longer valid */
  readonly identify: () => SessionCaller
  readonly releasesLeasesOnClose: boolean
}

export class Connections {
  readonly #parts: ConnectionsParts
  readonly #sessions = new Map<Session, () => SessionCaller>()
  readonly #byTenant = new Map<string, number>()
  /** One for each ended connection whose claims are being given back. */
  readonly #releasing = new Set<Promise<void>>()

  constructor(parts: ConnectionsParts) {
    this.#parts = parts
  }

  get count(): number {
    return this.#sessions.size
  }

  get limits(): ConnectionLimits {
    return this.#parts.limits
  }

  /** @throws BrokerError quota_exceeded */
  open({ who, identify, releasesLeasesOnClose }: NewConnection): Session {
    const ofTenant = this.#byTenant.get(who.tenant) ?? 0
    const { connectionsMax, tenantConnectionsMax } = this.limits
    if (this.#sessions.size >= connectionsMax) throw tooMany('the node', connectionsMax)
    if (ofTenant >= tenantConnectionsMax) throw tooMany('the tenant', tenantConnectionsMax)
    const { tenant } = who
    const session = new Session({
      ...this.#parts,
      who,
      releasesLeasesOnClose,
      releaseClaims: (claims) => this.#releaseClaims(claims),
      onClosed: () => this.#closed(session, tenant),
    })
    this.#sessions.set(session, identify)
    this.#byTenant.set(tenant, ofTenant + 1)
    return session
  }

  /** Called after the keys were read again. */
  identifyAgain(): void {
    for (const [session, identify] of this.#sessions) session.identified(whoOrNull(identify, session.caller))
  }

  /** Must be called before waiting claims are ended: the sessions would claim again otherwise. */
  stop(): void {
    for (const session of this.#sessions.keys()) session.stop()
  }

  /** Resolves when the claims of all connections that have ended so far are given back. */
  async idle(): Promise<void> {
    await Promise.all(this.#releasing)
  }

  /** Many connections may end at once, so each waits for its turn. */
  #releaseClaims(claims: readonly PushedClaim[]): void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#releasing.add(promise)
    const done = (): void => {
      this.#releasing.delete(promise)
      resolve()
    }
    const refused = (error: unknown): void => {
      this.#parts.onFailure(error) // the leases expire instead
      done()
    }
    const { operations, turn } = this.#parts
    void turn().then(() => operations.releaseClaims({ answered: done, refused }, claims))
  }

  #closed(session: Session, tenant: string): void {
    if (!this.#sessions.delete(session)) return
    const left = this.#byTenant.get(tenant)! - 1
    if (left > 0) this.#byTenant.set(tenant, left)
    else this.#byTenant.delete(tenant)
  }
}

/** Null: the key is unknown now, or belongs to another caller. */
function whoOrNull(identify: () => SessionCaller, { tenant, principal }: Caller): SessionCaller | null {
  try {
    const who = identify()
    return who.tenant === tenant && who.principal === principal ? who : null
  } catch {
    return null
  }
}

const tooMany = (owner: string, max: number): Error =>
  refuse('quota_exceeded', `${owner} has ${max} streaming connections, which is the limit`)
