/**
 * A compacted bundle that is damaged in some directories of a log gets the file of a directory that has it whole. On the thread of compaction.
 *
 * N1  what is copied was read through, and is read through again before it takes the name
 * N2  only a file that is not whole is replaced, and only by the one that queries expect: a directory may have the bundle in another form, or with records
 *     that have expired
 */
import { withOpenFile } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import { mergedName } from '../../log/merged.ts'
import { STAND_IN_HEADER_BYTES, STAND_IN_NAME, copyStandIn, isStandInWhole, readStandIn } from '../../log/stand-in.ts'
import { COMPACT_BEGIN_BYTES, decodeCompactHead } from './compact-format.ts'

export interface MendJob {
  readonly kind: 'mend'
  readonly logId: number
  readonly base: number
  readonly end: number
  readonly isMerged: boolean
  /** Of the file that queries expect. */
  readonly identity: number
  /** Of its first segment, in each directory of the log that is in use. */
  readonly directories: readonly string[]
  /** @see CompactJob */
  readonly isUrgent: boolean
  readonly isLate: SharedArrayBuffer
}

export type MendResult =
  /** From one directory to others. */
  | { readonly kind: 'mended'; readonly from: string; readonly to: readonly string[] }
  | { readonly kind: 'whole' }
  /** No directory has it whole. */
  | { readonly kind: 'lost' }

/**
 * @param rest called every now and then
 * @throws what the file system throws when it writes
 */
export function mendBundle(
  files: Files,
  { logId, base, end, isMerged, identity, directories }: Omit<MendJob, 'kind' | 'isUrgent' | 'isLate'>,
  rest: () => void,
): MendResult {
  const name = isMerged ? mergedName(end) : STAND_IN_NAME
  const copies = directories
    .filter((directory) => files.exists(`${directory}/${name}`))
    .map((directory) => {
      rest()
      return { directory, isWhole: isWholeIn(files, directory, name, logId, base) }
    })
  const to = copies.flatMap(({ directory, isWhole }) => (isWhole ? [] : [directory]))
  if (to.length === 0) return { kind: 'whole' }
  const source = copies.find(
    ({ directory, isWhole }) => isWhole && identityOf(files, `${directory}/${name}`) === identity, // N2
  )
  if (source === undefined) return { kind: 'lost' }
  for (const directory of to) {
    for (const _ of copyStandIn(files, logId, { base, end }, name, source.directory, directory)) rest()
  }
  return { kind: 'mended', from: source.directory, to }
}

function isWholeIn(files: Files, directory: string, name: string, logId: number, base: number): boolean {
  try {
    const header = readStandIn(files, directory, logId, base, name)
    return header !== null && isStandInWhole(files, directory, header, name)
  } catch {
    return false // the disk does not give it
  }
}

const identityOf = (files: Files, path: string): number | undefined =>
  withOpenFile(files, path, (file) => {
    const bytes = Buffer.alloc(COMPACT_BEGIN_BYTES)
    file.read(bytes, 0)
    return decodeCompactHead(bytes.subarray(STAND_IN_HEADER_BYTES))?.identity
  })
