/**
 * Sidecars: files that a job derives from a sealed segment and puts beside it, with a manifest that makes them one whole.
 *
 * Sidecars are derived: missing, left-over and bad ones are removed and made again from the segment.
 *
 * D1  the manifest is published last, so a set that has one is complete; each file of it was synced before
 * D2  the manifest holds the size and CRC-32 of each file and a checksum of its own: a sidecar that differs is as good as absent
 */
import { crc32 } from 'node:zlib'
import { decodeCheckedJson, encodeCheckedJson } from './checked-json.ts'
import { crcOf } from './crc-of.ts'
import { TEMPORARY_SUFFIX, fileBytes, publishFile, publishWritten, readWhole } from './files.ts'
import type { Files, OpenFile } from './files.ts'

export const MANIFEST_NAME = 'manifest.json'

const MANIFEST_VERSION = 1

export interface SidecarFile {
  readonly name: string
  readonly write: (file: OpenFile) => Omit<ManifestEntry, 'name'>
}

/** A sidecar whose parts are written one after the other. */
export const inParts = (name: string, parts: readonly Uint8Array[]): SidecarFile => ({
  name,
  write(file) {
    file.writev(parts, 0)
    return { bytes: parts.reduce((sum, part) => sum + part.byteLength, 0), crc32: crcOf(parts) }
  },
})

export interface ManifestEntry {
  readonly name: string
  readonly bytes: number
  readonly crc32: number
}

export interface Manifest {
  readonly version: number
  readonly files: readonly ManifestEntry[]
  /** The service's own: counts, least and greatest time, … */
  readonly about: unknown
}

export type ManifestRead =
  | { readonly kind: 'manifest'; readonly manifest: Manifest }
  | { readonly kind: 'absent' }
  | { readonly kind: 'bad'; readonly what: 'manifest' | 'file'; readonly reason: string }

/**
 * Publishes a set of sidecars in place of the one before (D1). Reads of the former set may fail meanwhile, new ones see the new set.
 *
 * @param about called when all are written; goes into the manifest, as JSON
 */
export function publishSidecars(
  files: Files,
  segmentDirectory: string,
  sidecars: readonly SidecarFile[],
  about: () => unknown,
): Manifest {
  const manifestPath = `${segmentDirectory}/${MANIFEST_NAME}`
  if (files.exists(manifestPath)) {
    files.removeFile(manifestPath)
    files.syncDirectory(segmentDirectory)
  }
  const entries = sidecars.map(({ name, write }) => ({
    name,
    ...publishWritten(files, segmentDirectory, name, write),
  }))
  const manifest = { version: MANIFEST_VERSION, files: entries, about: about() }
  publishFile(files, segmentDirectory, MANIFEST_NAME, [encodeCheckedJson(manifest)])
  return manifest
}

/** The manifest, when it is whole and every file it names is there with its size. Contents are not read: see `verifySidecar`. */
export function readManifest(files: Files, segmentDirectory: string): ManifestRead {
  const bytes = readWhole(files, `${segmentDirectory}/${MANIFEST_NAME}`)
  if (bytes === null) return { kind: 'absent' }
  return decodeManifest(bytes, (name) => {
    const path = `${segmentDirectory}/${name}`
    return files.exists(path) ? fileBytes(files, path) : 0
  })
}

/** As `readManifest`, for the bytes of a manifest, wherever it and the files that it names are. */
export function decodeManifest(
  bytes: Buffer,
  sizeOfFile: (name: string) => number,
): Exclude<ManifestRead, { kind: 'absent' }> {
  const decoded = decodeCheckedJson(bytes)
  if (decoded === null) return { kind: 'bad', what: 'manifest', reason: 'the manifest fails its checksum' }
  const manifest = decoded.content as Manifest // the checksum says we wrote it
  if (manifest.version !== MANIFEST_VERSION)
    return { kind: 'bad', what: 'manifest', reason: `manifest version ${manifest.version}` }
  for (const { name, bytes: expected } of manifest.files) {
    const have = sizeOfFile(name)
    if (have !== expected)
      return { kind: 'bad', what: 'file', reason: `${name} has ${have} bytes instead of ${expected}` }
  }
  return { kind: 'manifest', manifest }
}

/** Reads the whole file; false when it is not the one that was published (D2). */
export function verifySidecar(files: Files, segmentDirectory: string, entry: ManifestEntry): boolean {
  const bytes = readWhole(files, `${segmentDirectory}/${entry.name}`)
  return bytes !== null && bytes.byteLength === entry.bytes && crc32(bytes) === entry.crc32
}

/** Removes what a crash left of a publication that did not finish. */
export function removeLeftovers(files: Files, segmentDirectory: string): void {
  for (const name of files.list(segmentDirectory) ?? []) {
    if (name.endsWith(TEMPORARY_SUFFIX)) files.removeFile(`${segmentDirectory}/${name}`)
  }
}
