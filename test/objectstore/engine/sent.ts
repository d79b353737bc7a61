/** Bodies, attributes and conditions that clients send. */
import { createHash } from 'node:crypto'
import { STORAGE_CLASSES } from '../../../src/objectstore/storage-class.ts'
import type { BodyWriter, ObjectAttributes, ObjectSummary } from '../../../src/objectstore/operations.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { pick } from '../../support/random-history.ts'
import { PLAIN } from '../../support/object-attributes.ts'

export const CONDITIONS = ['any', 'any', 'any', 'absent', 'present', 'odd'] as const
export type Condition = (typeof CONDITIONS)[number]

/** 'odd': the object must have an odd commit sequence. */
export function conditionHolds(condition: Condition, current: ObjectSummary | null): boolean {
  if (condition === 'absent') return current === null
  if (condition === 'present') return current !== null
  return condition === 'any' || (current !== null && current.commitSequence % 2 === 1)
}

export const PLAN = { checksums: ['CRC64NVME'], sha256: false } as const

export async function writeAll(writer: BodyWriter, bytes: Buffer): Promise<void> {
  if (writer.write(bytes)) return
  await new Promise<void>((resolve) => writer.onDrain(resolve))
}

export const attributesOf = (choice: number): ObjectAttributes => ({
  ...PLAIN,
  contentLanguage: choice % 2 === 0 ? 'de' : null,
  metadata: choice % 3 === 0 ? { choice: String(choice) } : {},
  tags: choice % 5 === 0 ? [{ key: 'k', value: String(choice) }] : [],
  storageClass: pick(STORAGE_CLASSES, choice),
  encryption: choice % 7 === 0 ? { kind: 'AES256' } : null,
})

export const md5Of = (bytes: Buffer): string => createHash('md5').update(bytes).digest('hex')

/** Every body that a client sent, or made of parts, by its ETag. */
export class SentBodies {
  readonly #byEtag = new Map<string, Buffer>()
  #sent = 0

  /** A new body, different from all others. */
  create(bytes: number): Buffer {
    this.#sent += 1
    const body = payloadOf(this.#sent, bytes)
    this.#byEtag.set(md5Of(body), body)
    return body
  }

  add(etag: string, body: Buffer): void {
    this.#byEtag.set(etag, body)
  }

  of(etag: string): Buffer {
    return this.#byEtag.get(etag)!
  }
}
