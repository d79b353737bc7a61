/** Ids and facts of a change as answers show them. */
import type { HeaderLine } from './handler.ts'

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0')

export const bucketIdHeader = (bucketNumber: number): HeaderLine => ['x-obj-bucket-id', `bkt-${hex(bucketNumber, 8)}`]

/** An object is identified by the change that stored it. */
export const objectIdHeaders = (commitSequence: number): readonly HeaderLine[] => [
  ['x-obj-object-id', `obj-${hex(commitSequence, 12)}`],
  ['x-obj-version-id', versionId(commitSequence)],
  commitSequenceHeader(commitSequence),
]

export const versionId = (commitSequence: number): string => `ver-${hex(commitSequence, 12)}`

export const commitSequenceHeader = (commitSequence: number): HeaderLine => [
  'x-obj-commit-sequence',
  String(commitSequence),
]

/** The same lines as text. */
export function objectIdText(commitSequence: number): string {
  const id = hex(commitSequence, 12)
  return `\r\nx-obj-object-id: obj-${id}\r\nx-obj-version-id: ver-${id}\r\nx-obj-commit-sequence: ${commitSequence}`
}

/** Header of a key that a delete marker hides. */
export const DELETE_MARKER: HeaderLine = ['x-obj-delete-marker', 'true']

/** Header of every answered write. */
export const SYNCED: HeaderLine = ['x-obj-durability', 'synced']
