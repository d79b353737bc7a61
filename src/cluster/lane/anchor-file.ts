/**
 * The anchor of a node on its disk: `cluster-anchor.json` beside the segments. The log is synced up to it, so a start continues from there.
 */
import { decodeCheckedJson, encodeCheckedJson } from '../../log/checked-json.ts'
import { publishFile, readWhole } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import { ANCHOR_NAME } from '../../log/outside-cluster.ts'
import type { Anchor } from '../history.ts'

/** Null: there is none, or none that is whole. */
export function readAnchor(files: Files, directory: string): Anchor | null {
  const bytes = readWhole(files, `${directory}/${ANCHOR_NAME}`)
  const decoded = bytes && decodeCheckedJson(bytes)
  return decoded ? (decoded.content as Anchor) : null // the checksum says we wrote it
}

export function writeAnchor(files: Files, directory: string, anchor: Anchor): void {
  publishFile(files, directory, ANCHOR_NAME, [encodeCheckedJson(anchor)])
}
