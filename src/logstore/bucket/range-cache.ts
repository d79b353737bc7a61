/**
 * Pieces of objects, read once and kept while there is room; the least recently used ones are evicted first.
 *
 * R1  a piece is of one version of its object: the ETag is part of its name
 * R2  readers of a piece that is being read wait for it together; the read is given up when no reader waits any more
 * R3  at most `readsMax` reads are under way; the others wait in the order in which they came
 */
import type { ListedObject, ObjectClient } from './object-client.ts'

/** Bytes [from, to) of an object. */
export interface Piece {
  readonly object: ListedObject
  readonly from: number
  readonly to: number
}

interface Read {
  readonly bytes: Promise<Uint8Array>
  readonly controller: AbortController
  waiters: number
}

export class RangeCache {
  readonly #client: Pick<ObjectClient, 'read'>
  readonly #bytesMax: number
  readonly #readsMax: number
  /** In order of use: a Map iterates in order of insertion. */
  readonly #kept = new Map<string, Uint8Array>()
  readonly #reads = new Map<string, Read>()
  readonly #queue: (() => void)[] = []
  #keptBytes = 0
  #readsUnderWay = 0

  constructor(client: Pick<ObjectClient, 'read'>, options: { readonly bytesMax: number; readonly readsMax: number }) {
    this.#client = client
    this.#bytesMax = options.bytesMax
    this.#readsMax = options.readsMax
  }

  /** @throws ObjectReadError; the reason of the signal when it aborts */
  async get(piece: Piece, signal: AbortSignal): Promise<Uint8Array> {
    signal.throwIfAborted()
    const name = nameOf(piece)
    const kept = this.#kept.get(name)
    if (kept !== undefined) {
      this.#kept.delete(name)
      this.#kept.set(name, kept)
      return kept
    }
    let read = this.#reads.get(name)
    if (read === undefined) this.#reads.set(name, (read = this.#begin(name, piece)))
    return this.#wait(name, read, signal)
  }

  /** Drops what is kept of these objects, of whichever version. */
  forget(keys: readonly string[]): void {
    for (const [name, { byteLength }] of this.#kept) {
      if (!keys.some((key) => name.endsWith(` ${key}`))) continue
      this.#kept.delete(name)
      this.#keptBytes -= byteLength
    }
  }

  async #wait(name: string, read: Read, signal: AbortSignal): Promise<Uint8Array> {
    read.waiters += 1
    let giveUp = (): void => {}
    const aborted = new Promise<never>((_, reject) => {
      giveUp = () => reject(signal.reason as Error)
    })
    signal.addEventListener('abort', giveUp)
    try {
      return await Promise.race([read.bytes, aborted])
    } finally {
      signal.removeEventListener('abort', giveUp)
      read.waiters -= 1
      if (read.waiters === 0 && this.#reads.get(name) === read) {
        this.#reads.delete(name)
        read.controller.abort() // R2
      }
    }
  }

  #begin(name: string, piece: Piece): Read {
    const controller = new AbortController()
    const bytes = this.#read(piece, controller.signal).then(
      (bytes) => {
        this.#reads.delete(name)
        this.#keep(name, bytes)
        return bytes
      },
      (error: unknown) => {
        if (this.#reads.get(name)?.controller === controller) this.#reads.delete(name)
        throw error
      },
    )
    bytes.catch(() => {}) // every query that waited may have ended
    return { bytes, controller, waiters: 0 }
  }

  async #read({ object, from, to }: Piece, signal: AbortSignal): Promise<Uint8Array> {
    if (this.#readsUnderWay >= this.#readsMax) await new Promise<void>((resolve) => this.#queue.push(resolve))
    else this.#readsUnderWay += 1
    try {
      signal.throwIfAborted()
      return await this.#client.read(object, from, to, signal)
    } finally {
      const next = this.#queue.shift()
      if (next === undefined) this.#readsUnderWay -= 1
      else next()
    }
  }

  #keep(name: string, bytes: Uint8Array): void {
    if (bytes.byteLength > this.#bytesMax) return
    this.#kept.set(name, bytes)
    this.#keptBytes += bytes.byteLength
    for (const [oldest, { byteLength }] of this.#kept) {
      if (this.#keptBytes <= this.#bytesMax) return
      this.#kept.delete(oldest)
      this.#keptBytes -= byteLength
    }
  }
}

const nameOf = ({ object: { key, etag }, from, to }: Piece): string => `${etag} ${from} ${to} ${key}`
