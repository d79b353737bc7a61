/**
 * What the server said it did with the objects of the run, and on request a file of it.
 *
 * L1  the line of an answer is handed to the kernel before its connection sends again, so it survives the death of this process (not
 *     of the machine)
 *
 * Line of the file, tab-separated: `stored` or `deleted`, key
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { UsageError } from '../options.ts'
import type { OptionValues } from '../options.ts'
import type { NumberedObjects } from './objects.ts'

export type Fate = 'unknown' | 'stored' | 'deleted'
const FATES = ['unknown', 'stored', 'deleted'] as const

export class Ledger {
  readonly #objects: NumberedObjects
  readonly #file: number | null
  #fates = new Uint8Array(1 << 16) // by number of the object, indices of FATES

  /** @throws the file system's error when `path` cannot be opened for appending */
  constructor(objects: NumberedObjects, path: string | null) {
    this.#objects = objects
    this.#file = path === null ? null : openSync(path, 'a')
  }

  /** @param fate unknown: from now on either is right, such as after a deletion without an answer */
  note(object: number, fate: Fate): void {
    while (object >= this.#fates.length) {
      const larger = new Uint8Array(2 * this.#fates.length)
      larger.set(this.#fates)
      this.#fates = larger
    }
    this.#fates[object] = FATES.indexOf(fate)
    if (this.#file !== null && fate !== 'unknown') writeSync(this.#file, `${fate}\t${this.#objects.key(object)}\n`) // L1
  }

  fateOf(object: number): Fate {
    return FATES[this.#fates[object] ?? 0]!
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
  }
}

/** @throws UsageError when the file of the option cannot be opened */
export function openLedger(objects: NumberedObjects, options: OptionValues): Ledger {
  try {
    return new Ledger(objects, options.has('acked-file') ? options.text('acked-file') : null)
  } catch (error) {
    if (error instanceof Error && 'code' in error) throw new UsageError(`--acked-file: ${error.message}`)
    throw error
  }
}
