/**
 * What may be stored under one key. The actor that owns it makes one change after the other, so its versions have an order.
 *
 *   ask ──► answered   it is there, and nothing before it ever again
 *    │ └──► undone     it never was there
 *    └────► …          unknown: it or what was before, until a look after the death of the process shows one of them
 *
 * K1  what was shown is durable: nothing before it is ever shown again
 * K2  a look may show any version that could be there at some moment between question and answer
 * K3  the oldest version that may be there is never ruled out: other looks may have shown more, meanwhile, than one that waited for its answer
 */
import assert from 'node:assert/strict'
import type { Body } from './bodies.ts'

/** Most events that are kept for the message. */
const HEARD_MAX = 30
const HEARD_CHARACTERS_MAX = 300

export interface ExpectedObject {
  readonly body: Body
  readonly etag: string
  readonly contentType: string
  /** By name without its prefix. */
  readonly metadata: Readonly<Record<string, string>>
  readonly tags: Readonly<Record<string, string>>
}

export class Version {
  /** Null: there is nothing. */
  readonly object: ExpectedObject | null
  readonly number: number
  /** As answered; null: it is unknown. */
  commitSequence: number | null = null
  isVoid = false
  next: Version | null = null

  constructor(object: ExpectedObject | null, number: number) {
    this.object = object
    this.number = number
  }
}

/** K2. The oldest version that could be there when the look began. */
export type Look = Version

export class KeyLedger {
  readonly bucket: string
  readonly key: string
  #oldest = new Version(null, 0)
  #newest = this.#oldest
  /** The version that was read whole when all actors waited. */
  verified: Version | null = null
  /** The last events of the key, for the message. */
  readonly #heard: string[] = []

  constructor(bucket: string, key: string) {
    this.bucket = bucket
    this.key = key
  }

  get target(): string {
    return `/${this.bucket}/${encodeURIComponent(this.key)}`
  }

  get name(): string {
    return `${this.bucket}/${this.key}`
  }

  ask(object: ExpectedObject | null): Version {
    const version = new Version(object, this.#newest.number + 1)
    this.#newest.next = version
    this.#newest = version
    this.#note(`requested ${describe(version)}`)
    return version
  }

  answered(version: Version, commitSequence: number | null): void {
    version.commitSequence = commitSequence
    this.#note(`${version.number} was answered, sequence ${commitSequence}`)
    this.#notBefore(version)
  }

  undone(version: Version): void {
    version.isVoid = true
    this.#note(`${version.number} was refused`)
  }

  /** One of several changes, of which at most one could happen, did happen or may have: there is an object. */
  isThere(): void {
    this.#note('an object exists')
    while (this.#oldest.object === null && this.#oldest.next !== null) this.#oldest = this.#oldest.next
  }

  look(): Look {
    return this.#oldest
  }

  /** Versions that may be there. */
  candidates(from: Look = this.#oldest): Version[] {
    const candidates: Version[] = []
    for (let version: Version | null = from; version !== null; version = version.next) {
      if (!version.isVoid) candidates.push(version)
    }
    return candidates
  }

  /** The only version that may be there; undefined: there are several. */
  get known(): Version | undefined {
    const candidates = this.candidates()
    return candidates.length === 1 ? candidates[0] : undefined
  }

  /**
   * K1. A look has shown what is there.
   *
   * @param what for the message
   * @returns what it may be, the oldest first: a look may not tell versions apart, as that at tags does not tell bodies
   */
  noteSeen(
    from: Look,
    what: string,
    isIt: (object: ExpectedObject | null, version: Version) => boolean,
  ): readonly Version[] {
    const candidates = this.candidates(from)
    const seen = candidates.filter((version) => isIt(version.object, version))
    if (seen.length === 0) {
      const expected = candidates.map((version) => describe(version)).join('\n  ')
      const heard = this.#heard.join('\n  ')
      assert.fail(
        `${this.name} shows\n  ${what}\nand should be one of\n  ${expected}\nThe read began when version ${from.number} was the oldest possible. Events before it:\n  ${heard}`,
      )
    }
    this.#note(
      `${seen.map(({ number }) => number).join(' or ')} was seen by a read that began at version ${from.number}: ${what}`,
    )
    this.#notBefore(seen[0]!)
    return seen
  }

  /**
   * K3. What is there is one of these versions: all others were asked of a process that is dead.
   *
   * @param seen by looks that together see everything of an object
   */
  settle(seen: readonly Version[]): void {
    const left = this.candidates()
    const version = left.find((candidate) => seen.includes(candidate))
    const numbers = seen.map(({ number }) => number).join(' or ')
    assert(version, `${this.name} was seen as ${numbers}, which earlier reads rule out:\n  ${this.#heard.join('\n  ')}`)
    this.#note(`it is version ${version.number}, seen as ${numbers}; the other requested versions never happened`)
    for (const other of left) if (other !== version) other.isVoid = true
    this.#notBefore(version)
  }

  #notBefore(version: Version): void {
    if (version.number > this.#oldest.number) this.#oldest = version
  }

  #note(what: string): void {
    const at = new Date().toISOString().slice(11, 23) // as the log of the process has it
    this.#heard.push(`${at} ${what.slice(0, HEARD_CHARACTERS_MAX)}`)
    if (this.#heard.length > HEARD_MAX) this.#heard.shift()
  }
}

const describe = ({ object, number, commitSequence }: Version): string =>
  object === null
    ? `${number}: nothing`
    : `${number}: ${object.body.size} bytes, ${object.etag}, sequence ${commitSequence}, ${JSON.stringify([object.contentType, object.metadata, object.tags])}`
