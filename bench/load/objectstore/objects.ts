/**
 * Objects by number: their keys, and their bytes, which are a window into one block of random bytes. So a body costs nothing to make and
 * can be made again to compare it, and objects whose numbers are near have different bytes.
 */
import { createHash } from 'node:crypto'
import { Random } from '../random.ts'
import type { Sizes } from './sizes.ts'

const KEY_DIGITS = 12
/** How many different windows there are. */
const WINDOWS = 4096
const PART_WINDOWS = 16

/** Objects of a run, as verifications see them. */
export interface NumberedObjects {
  key(object: number): string
  /** The bytes of an object, in the pieces it was sent in. */
  pieces(object: number): readonly Buffer[]
}

export class LoadObjects implements NumberedObjects {
  readonly prefix: string
  readonly #sizes: Sizes
  readonly #block: Buffer

  /** @param prefix of the keys: letters, digits, `/`, `.`, `_` and `-` */
  constructor(prefix: string, sizes: Sizes, seed: number) {
    this.prefix = prefix
    this.#sizes = sizes
    const random = new Random(seed)
    const words = Uint32Array.from({ length: Math.ceil((sizes.bytesMax + WINDOWS) / 4) }, () => random.uint32())
    this.#block = Buffer.from(words.buffer)
  }

  key(object: number): string {
    return this.prefix + String(object).padStart(KEY_DIGITS, '0')
  }

  /** Null: the key is not that of one of these objects. */
  numberOf(key: string): number | null {
    const digits = key.slice(this.prefix.length)
    return key.startsWith(this.prefix) && digits.length === KEY_DIGITS && /^\d+$/.test(digits) ? Number(digits) : null
  }

  pieces(object: number): readonly Buffer[] {
    return [this.bytes(object)]
  }

  bytes(object: number): Buffer {
    const from = object % WINDOWS
    return this.#block.subarray(from, from + this.#sizes.bytesOf(object))
  }
}

/** Objects that are sent in parts. There are few different parts, so that their ETags are computed once. */
export class PartedObjects implements NumberedObjects {
  readonly parts: number
  readonly partBytes: number
  readonly #windows: LoadObjects
  readonly #etags = new Map<number, string>()

  /** @param prefix as above */
  constructor(prefix: string, parts: number, partBytes: number, seed: number) {
    this.parts = parts
    this.partBytes = partBytes
    this.#windows = new LoadObjects(prefix, { bytesMax: partBytes, bytesOf: () => partBytes }, seed)
  }

  key(object: number): string {
    return this.#windows.key(object)
  }

  pieces(object: number): readonly Buffer[] {
    return Array.from({ length: this.parts }, (_, i) => this.part(object, i + 1))
  }

  /** @param part its number, from 1 */
  part(object: number, part: number): Buffer {
    return this.#windows.bytes(windowOf(object, part))
  }

  /** MD5 in hexadecimal. */
  etag(object: number, part: number): string {
    const window = windowOf(object, part)
    const etag = this.#etags.get(window) ?? createHash('md5').update(this.#windows.bytes(window)).digest('hex')
    this.#etags.set(window, etag)
    return etag
  }
}

const windowOf = (object: number, part: number): number => (object + part) % PART_WINDOWS

/** Hands out numbers, to all connections: none twice. */
export class ObjectNumbers {
  /** The numbers below it were given. */
  taken = 0

  take(): number {
    return this.taken++
  }
}
