/**
 * A cache of parsed documents, in the order of their last use. A document is known by its memory: one that replaces it has memory of its own.
 *
 * L1  the documents take at most `bytesMax` together. Each counts with DOCUMENT_BYTES more, for what even a short one takes. One that is longer by
 *     itself is not kept
 */
import { LinkedList } from '../../linked-list.ts'
import type { Link } from '../../linked-list.ts'

const DOCUMENT_BYTES = 512

interface Ready<Value> {
  readonly document: Uint8Array
  readonly value: Value
}

export class ReadyDocuments<Value> {
  readonly #bytesMax: number
  readonly #links = new Map<Uint8Array, Link<Ready<Value>>>()
  /** In order of use. */
  readonly #used = new LinkedList<Ready<Value>>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** @throws what `make` throws; then nothing is kept */
  of(document: Uint8Array, make: () => Value): Value {
    const link = this.#links.get(document)
    if (link === undefined) return this.#add(document, make())
    this.#used.remove(link)
    this.#used.append(link)
    return link.value.value
  }

  #add(document: Uint8Array, value: Value): Value {
    this.#links.set(document, this.#used.add({ document, value }))
    this.#bytes += bytesFor(document)
    while (this.#bytes > this.#bytesMax) this.#remove(this.#used.oldest!) // L1: it has links while it counts bytes
    return value
  }

  #remove(link: Link<Ready<Value>>): void {
    const { document } = link.value
    this.#used.remove(link)
    this.#links.delete(document)
    this.#bytes -= bytesFor(document)
  }
}

const bytesFor = (document: Uint8Array): number => DOCUMENT_BYTES + document.byteLength
