/**
 * How each service knows the visitor. What they typed stays in this tab's session storage: it is sent with requests, never put into an address.
 *
 * A service on this machine may ask for nothing, and the log store's development token is public: then the visitor need not sign in.
 */
import { useEffect, useState } from 'preact/hooks'

export const SERVICES = ['logstore', 'objectstore', 'broker'] as const
export type ServiceName = (typeof SERVICES)[number]

export const TITLES: Readonly<Record<ServiceName, string>> = {
  logstore: 'Log store',
  objectstore: 'Object store',
  broker: 'Broker',
}

type Access = 'none' | 'development' | 'tenant-token' | 'access-key' | 'api-key' | 'unknown' | 'elsewhere'

interface ServicePlace {
  /** Where programs reach it. */
  readonly url: string
  readonly access: Access
  readonly region: string | null
}

export interface About {
  readonly version: string
  readonly services: Readonly<Record<ServiceName, ServicePlace | null>>
}

export type Credentials =
  | { readonly kind: 'none' }
  | { readonly kind: 'tenant'; readonly tenant: string; readonly token: string }
  | { readonly kind: 'access-key'; readonly id: string; readonly secret: string; readonly region: string }
  | { readonly kind: 'api-key'; readonly key: string }

const storageKey = (service: ServiceName): string => `trilog.${service}`

const WITHOUT: Partial<Record<Access, Credentials>> = {
  none: { kind: 'none' },
  development: { kind: 'tenant', tenant: 'local', token: 'local-dev-token' },
}

class Session {
  about: About = { version: '', services: { logstore: null, objectstore: null, broker: null } }
  readonly #listeners = new Set<() => void>()

  /** Null: they have to sign in first. */
  credentialsOf(service: ServiceName): Credentials | null {
    const stored = sessionStorage.getItem(storageKey(service))
    if (stored !== null) return JSON.parse(stored) as Credentials // written below
    return WITHOUT[this.about.services[service]?.access ?? 'unknown'] ?? null
  }

  /** True when the visitor can sign out. */
  isSignedIn(service: ServiceName): boolean {
    return sessionStorage.getItem(storageKey(service)) !== null
  }

  signIn(service: ServiceName, credentials: Credentials): void {
    sessionStorage.setItem(storageKey(service), JSON.stringify(credentials))
    this.#changed()
  }

  signOut(service: ServiceName): void {
    sessionStorage.removeItem(storageKey(service))
    this.#changed()
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}

export const session = new Session()

/** The credentials, and again when they change. */
export function useCredentials(service: ServiceName): Credentials | null {
  const [, renew] = useState(0)
  useEffect(() => session.listen(() => renew((count) => count + 1)), [])
  return session.credentialsOf(service)
}
