/** What all actors that work on the object store share: the ledgers, and the way to the store. */
import type { ObjectStoreServer } from '../../../test/support/objectstore.ts'
import { Gate } from '../gate.ts'
import { Bodies } from './bodies.ts'
import { Client, Traffic } from './client.ts'
import type { ClientOptions } from './client.ts'
import type { Failures } from '../crew.ts'
import { KeyLedger } from './key-ledger.ts'
import type { UploadLedger } from './upload-ledger.ts'

export const BUCKETS = ['soak-a', 'soak-b'] as const

export class Scene {
  readonly server: ObjectStoreServer
  readonly bodies: Bodies
  readonly gate = new Gate()
  readonly traffic = new Traffic()
  failures: Failures = 'forbidden'
  readonly #keys = new Map<string, KeyLedger>()
  /** Uploads that were begun, by upload id; those that ended long ago are not there. */
  readonly uploads = new Map<string, UploadLedger>()
  readonly #clients: Client[] = []

  constructor(server: ObjectStoreServer, seed: number) {
    this.server = server
    this.bodies = new Bodies(seed)
  }

  /** A key that no actor knows yet. */
  newKey(bucket: string, key: string): KeyLedger {
    const ledger = new KeyLedger(bucket, key)
    this.#keys.set(ledger.name, ledger)
    return ledger
  }

  get keys(): readonly KeyLedger[] {
    return [...this.#keys.values()]
  }

  keysOf(bucket: string): readonly KeyLedger[] {
    return this.keys.filter((ledger) => ledger.bucket === bucket)
  }

  key(bucket: string, key: string): KeyLedger | undefined {
    return this.#keys.get(`${bucket}/${key}`)
  }

  /** A client that waits while the gate is closed. */
  newClient(): Client {
    const client = new Client(this.#clientOptions(this.gate))
    this.#clients.push(client)
    return client
  }

  /** A client for checks, which work while the actors wait. */
  newInspector(): Client {
    return new Client(this.#clientOptions(new Gate()))
  }

  /** Whether no client waits for an answer, apart from inspectors. */
  get isQuiet(): boolean {
    return this.#clients.every(({ busy }) => busy === 0)
  }

  abandon(): void {
    for (const client of this.#clients) client.abandon()
    this.gate.open()
  }

  #clientOptions(gate: Gate): ClientOptions {
    return { server: this.server, gate, traffic: this.traffic, failures: () => this.failures }
  }
}
