/** Record ids of the rows of a block: computed from the records, as at ingest, except explicit ones, which do not follow from the record alone. */
import { BatchHasher, HEAD_BYTES } from '../../../native-free-codecs/blake2s.ts'
import { RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import { groupPrefix, writeRecordHead } from '../../../native-free-codecs/record-id.ts'
import type { Group } from './block-writer.ts'

interface Records {
  readonly recordCount: number
  readonly groups: readonly Group[]
  readonly rowGroup: Uint16Array
  readonly owner: { readonly tenant: string; readonly dataset: string }
  /** Makes rows [from, to), one behind the other in a body. @returns the body, and by row where it begins and ends */
  madeTo(from: number, to: number): { readonly body: Buffer; readonly starts: Uint32Array; readonly ends: Uint32Array }
}

/** After this many single ids, all ids of the block are computed, which takes as long as some 500 single ones. A page asks for fewer. */
const ONE_BY_ONE_MAX = 256

let hasher: BatchHasher | null = null

export class RecordIds {
  readonly #records: Records
  readonly #explicit: ReadonlyMap<number, Uint32Array>
  #all: Uint32Array | null = null
  #asked = 0
  #heads: Buffer | null = null

  constructor(records: Records, explicit: ReadonlyMap<number, Uint32Array>) {
    this.#records = records
    this.#explicit = explicit
  }

  /** Four words a row. */
  all(): Uint32Array {
    this.#all ??= this.#compute(0, this.#records.recordCount)
    return this.#all
  }

  of(row: number): Uint32Array {
    if (this.#all === null && ++this.#asked <= ONE_BY_ONE_MAX) return this.#compute(row, row + 1)
    return this.all().slice(4 * row, 4 * row + 4)
  }

  /** Four words for each of the rows [from, to). */
  between(from: number, to: number): Uint32Array {
    return this.#all === null ? this.#compute(from, to) : this.#all.subarray(4 * from, 4 * to)
  }

  #compute(from: number, to: number): Uint32Array {
    const { rowGroup } = this.#records
    const { body, starts, ends } = this.#records.madeTo(from, to)
    const ids = plainIds(body, starts, ends, rowGroup, this.#headsOfGroups(), from, to)
    for (const [row, words] of this.#explicit) if (row >= from && row < to) ids.set(words, 4 * (row - from))
    return ids
  }

  #headsOfGroups(): Buffer {
    if (this.#heads !== null) return this.#heads
    const { groups, owner } = this.#records
    const { tenant, dataset } = owner
    const heads = Buffer.alloc(HEAD_BYTES * groups.length)
    for (const [number, group] of groups.entries()) writeGroupHead(heads, number, tenant, dataset, group)
    this.#heads = heads
    return heads
  }
}

/** The head of the ids of timed records of a group, see record-id.ts. */
function writeGroupHead(heads: Buffer, number: number, tenant: string, dataset: string, group: Group): void {
  const { signal, resource, scope, resourceSchemaUrl, scopeSchemaUrl } = group
  const prefix = groupPrefix(tenant, dataset, signal, resource, scope, resourceSchemaUrl, scopeSchemaUrl)
  writeRecordHead(heads, HEAD_BYTES * number, prefix, 0, null)
}

/**
 * Ids of the records [from, to), which lie in this order in the body, as if each has a time and none is repeated in its batch.
 *
 * @param headOf by record: the number of its head in `heads`
 * @returns four words a record
 */
function plainIds(
  body: Buffer,
  starts: Uint32Array,
  ends: Uint32Array,
  headOf: Uint16Array,
  heads: Buffer,
  from: number,
  to: number,
): Uint32Array {
  const ids = new Uint32Array(4 * (to - from))
  hasher ??= new BatchHasher()
  for (let first = from; first < to;) {
    const count = Math.min(RECORDS_PER_BATCH_MAX, to - first)
    const bodyStart = starts[first]!
    const numbers = new Map<number, number>()
    const used = new Uint16Array(count)
    const someStarts = new Uint32Array(count)
    const someEnds = new Uint32Array(count)
    let head = -1
    let number = 0
    for (let i = 0; i < count; i++) {
      someStarts[i] = starts[first + i]! - bodyStart
      someEnds[i] = ends[first + i]! - bodyStart
      if (headOf[first + i] !== head) {
        head = headOf[first + i]!
        number = numbers.get(head) ?? numbers.size
        numbers.set(head, number)
      }
      used[i] = number
    }
    const usedHeads = Buffer.alloc(HEAD_BYTES * numbers.size)
    for (const [head, number] of numbers) {
      heads.copy(usedHeads, HEAD_BYTES * number, HEAD_BYTES * head, HEAD_BYTES * (head + 1))
    }
    const some = new Uint32Array(4 * count)
    hasher.idsInto(
      some,
      body.subarray(bodyStart, ends[first + count - 1]),
      someStarts,
      someEnds,
      used,
      usedHeads,
      numbers.size,
      count,
    )
    ids.set(some, 4 * (first - from))
    first += count
  }
  return ids
}
