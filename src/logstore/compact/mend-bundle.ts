/**
 * Replaces the file of a compacted bundle, where it is damaged, with the file of another directory of the log that has it whole. Runs on the compaction
 * thread, or at a start when the part that opens the bundle is damaged.
 *
 * N1  the source is verified as a whole, and the copy is verified again before it gets its name
 * N2  only a damaged file is replaced, and only by the content that queries expect: a directory may have the bundle in another form, or with expired
 *     records. At a start no content is expected yet
 * N3  if one directory does not take the file, the others still get it
 */
import { messageOf } from '../../errors.ts'
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
  /** Names the content that queries expect. Null: any content will do, as no query has seen the bundle. */
  readonly identity: number | null
  /** The directory of its first segment, in each directory of the log that is in use. */
  readonly directories: readonly string[]
  /** @see CompactJob */
  readonly isUrgent: boolean
  readonly isLate: SharedArrayBuffer
}

export type MendResult =
  /** The file was copied from one directory to others. */
  | { readonly kind: 'mended'; readonly from: string; readonly to: readonly string[]; readonly problem: string | null }
  | { readonly kind: 'whole' }
  /** No directory has it whole. */
  | { readonly kind: 'lost' }

/**
 * @param rest called now and then
 * @throws what the file system throws when it writes, if no directory takes the file
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
  const isExpected = (directory: string): boolean => {
    const its = identityOf(files, `${directory}/${name}`)
    return its !== undefined && (identity === null || its === identity)
  }
  const source = copies.find(({ directory, isWhole }) => isWhole && isExpected(directory)) // N2
  if (source === undefined) return { kind: 'lost' }
  const mended: string[] = []
  const failures: { readonly directory: string; readonly error: unknown }[] = []
  for (const directory of to) {
    try {
      for (const _ of copyStandIn(files, logId, { base, end }, name, source.directory, directory)) rest()
      mended.push(directory)
    } catch (error) {
      failures.push({ directory, error }) // N3
    }
  }
  const [first] = failures
  if (mended.length === 0) throw first!.error
  const problem = first === undefined ? null : `${first.directory}: ${messageOf(first.error)}`
  return { kind: 'mended', from: source.directory, to: mended, problem }
}

function isWholeIn(files: Files, directory: string, name: string, logId: number, base: number): boolean {
  try {
    const header = readStandIn(files, directory, logId, base, name)
    return header !== null && isStandInWhole(files, directory, header, name)
  } catch {
    return false // it cannot be read
  }
}

/** Undefined: the file is not a bundle; a moved stand-in is none. */
const identityOf = (files: Files, path: string): number | undefined =>
  withOpenFile(files, path, (file) => {
    const bytes = Buffer.alloc(COMPACT_BEGIN_BYTES)
    file.read(bytes, 0)
    return decodeCompactHead(bytes.subarray(STAND_IN_HEADER_BYTES))?.identity
  })
