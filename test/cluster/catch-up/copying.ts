/** Copies of a log on simulated files, as a node makes them. */
import { copyLog } from '../../../src/cluster/catch-up/copy.ts'
import type { RemoteLog } from '../../../src/cluster/catch-up/copy.ts'
import type { Listing } from '../../../src/cluster/catch-up/listing.ts'
import { writeAnchor } from '../../../src/cluster/lane/anchor-file.ts'
import { StoreError } from '../../../src/errors.ts'
import type { Files } from '../../../src/log/files.ts'

export const LOG = { directory: '/data', segmentsName: 'segments' }

export const partsOf = (files: Files) => ({ ...LOG, files, replicas: [], writeAnchor })

/** Tried again like a node does it, whose source has nothing to give for a moment. */
export async function copied(files: Files, remote: RemoteLog, triesMax: number): Promise<Listing> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await copyLog({ ...LOG, files, remote })
    } catch (error) {
      if (!(error instanceof StoreError) || error.kind !== 'unavailable' || tries === triesMax) throw error
    }
  }
}
