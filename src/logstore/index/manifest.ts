/**
 * A bundle's manifest: what is in it, for people and for a start that opens no index. Written last (see sidecar.ts), so that it
 * stands for a complete sidecar; the index file it names is checked block by block when it is read.
 */
import type { Files } from '../../log/files.ts'
import { publishSidecars, readManifest } from '../../log/sidecar.ts'
import type { Manifest, SidecarFile } from '../../log/sidecar.ts'
import type { BuiltIndex, WriteAt } from './builder.ts'
import type { CatalogRow } from './catalog.ts'
import { INDEX_NAME, INDEX_VERSION, headBytesOf } from './index-file.ts'
import type { IndexHeader } from './index-file.ts'

interface AboutBundle {
  readonly index_version: number
  /** The id of the log, as its frames say; manifests of older versions have none. */
  readonly log_id?: number
  /** Bytes of the index file that open it, see `headBytesOf`; manifests of older versions do not say. */
  readonly index_head_bytes?: number
  readonly index_identity: number
  readonly base: number
  readonly end: number
  readonly records: number
  readonly partitions: number
  /** Decimal, ns since the Unix epoch. */
  readonly min_time_unix_nano: string
  readonly max_time_unix_nano: string
  readonly received_until_unix_nano: string
}

export interface Bundle extends CatalogRow {
  /** When the last of its batches was received, ns since the Unix epoch. */
  readonly receivedUntil: bigint
  /** How often its records were written again since it was compacted. */
  readonly level?: number
}

/** The bundle that the header of an index describes. */
export const bundleOf = ({ base, end, minTime, maxTime, receivedUntil, sections, identity }: IndexHeader): Bundle => ({
  base,
  end,
  minTime,
  maxTime,
  receivedUntil,
  records: sections.entries.rows,
  identity,
})

/** Publishes the index of the segment in `directory`. @param build makes the file */
export function publishBundle(
  files: Files,
  directory: string,
  build: (write: WriteAt) => BuiltIndex,
  logId: number,
): Bundle {
  let header: IndexHeader | null = null
  const index: SidecarFile = {
    name: INDEX_NAME,
    write(file) {
      const { header: its, ...written } = build((bytes, at) => file.writev([bytes], at))
      header = its
      return written
    },
  }
  publishSidecars(files, directory, [index], () => aboutOf(header!, logId))
  return bundleOf(header!)
}

const aboutOf = (header: IndexHeader, logId: number): AboutBundle => ({
  index_version: INDEX_VERSION,
  log_id: logId,
  index_head_bytes: headBytesOf(header),
  index_identity: header.identity,
  base: header.base,
  end: header.end,
  records: header.sections.entries.rows,
  partitions: header.sections.partitions.rows,
  min_time_unix_nano: header.minTime.toString(),
  max_time_unix_nano: header.maxTime.toString(),
  received_until_unix_nano: header.receivedUntil.toString(),
})

/** The bundle of a sealed segment; null when its sidecar is missing, damaged, of another version or segment, and has to be built. */
export function readBundleManifest(
  files: Files,
  segment: { readonly base: number; readonly end: number; readonly directory: string },
): Bundle | null {
  const read = readManifest(files, segment.directory)
  if (read.kind !== 'manifest') return null
  const described = describedBundle(read.manifest)
  if (described === null || described.bundle.base !== segment.base || described.bundle.end !== segment.end) return null
  return described.bundle
}

export interface DescribedBundle {
  readonly bundle: Bundle
  /** null: an older version wrote the manifest. */
  readonly logId: number | null
  readonly indexHeadBytes: number | null
}

/** What a manifest says, whose checksum was verified. Null: another version wrote it. */
export function describedBundle({ about: content }: Manifest): DescribedBundle | null {
  const about = content as AboutBundle // its checksum says that publishBundle wrote it
  if (about.index_version !== INDEX_VERSION) return null
  const bundle = {
    base: about.base,
    end: about.end,
    minTime: BigInt(about.min_time_unix_nano),
    maxTime: BigInt(about.max_time_unix_nano),
    receivedUntil: BigInt(about.received_until_unix_nano),
    records: about.records,
    identity: about.index_identity,
  }
  return { bundle, logId: about.log_id ?? null, indexHeadBytes: about.index_head_bytes ?? null }
}
