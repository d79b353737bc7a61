/** Copies a log on simulated files, like a node. */
import { copyLog } from '../../../src/cluster/catch-up/copy.ts'
import type { RemoteLog } from '../../../src/cluster/catch-up/copy.ts'
import { readPiece } from '../../../src/cluster/catch-up/listing.ts'
import type { Listing } from '../../../src/cluster/catch-up/listing.ts'
import { writeAnchor } from '../../../src/cluster/lane/anchor-file.ts'
import { StoreError } from '../../../src/errors.ts'
import type { Files } from '../../../src/log/files.ts'

export const LOG = { directory: '/data', segmentsName: 'segments' }

export const partsOf = (files: Files) => ({ ...LOG, files, replicas: [], writeAnchor })

/** Copies a log and, like a node, tries again when the source has nothing to give for a moment. */
export async function copied(files: Files, remote: RemoteLog, triesMax: number): Promise<Listing> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await copyLog({ ...LOG, files, remote })
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== 'unavailable' || tries === triesMax) throw error
    }
  }
}

/** Reads pieces as the node with the log gives them, but at most `bytesMax` bytes each. */
export const readerOf =
  (files: Files, bytesMax: number): RemoteLog['read'] =>
  async (path, from, into) => {
    const bytes = Math.min(into.byteLength, bytesMax)
    const piece = await readPiece({ files, directory: LOG.directory }, { path, from, bytes })
    return piece && into.subarray(0, piece.copy(into))
  }
