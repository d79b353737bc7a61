/**
 * What a client knows of one cursor, which only it sets.
 *
 * K1  a cursor is where the last answer said, or where a request without an answer would have put it: it goes nowhere by itself
 */
import assert from 'node:assert/strict'
import type { GroupLedger } from './group-ledger.ts'

export class CursorLedger {
  readonly group: GroupLedger
  readonly name: string
  /** Offsets that the cursor may have; -1: none yet. */
  #possible: readonly number[] = [-1]

  constructor(group: GroupLedger, name: string) {
    this.group = group
    this.name = name
  }

  get path(): string {
    return `${this.group.path}/cursors/${this.name}`
  }

  get highest(): number {
    return Math.max(...this.#possible)
  }

  get isCertain(): boolean {
    return this.#possible.length === 1
  }

  asked(offset: number): void {
    this.#possible = [...this.#possible, offset]
  }

  answered(offset: number): void {
    this.#possible = [offset]
  }

  /** The request that was asked last did nothing. */
  refused(): void {
    this.#possible = this.#possible.slice(0, -1)
  }

  /** K1. @param offset null: it is not listed; @param isFinal it stays there */
  shown(offset: number | null, isFinal: boolean): void {
    const where = `cursor ${this.name} of ${this.group.stream.name} in group ${this.group.name}`
    const at = offset ?? -1
    assert(this.#possible.includes(at), `${where} is at ${at}, not at ${this.#possible.join(' or ')}`)
    if (isFinal) this.#possible = [at]
  }
}
