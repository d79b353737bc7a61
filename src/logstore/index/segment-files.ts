/**
 * The one seam between readers of bundles and the place of the files: the data directory, or a bucket. It is synchronous, because its callers are threads
 * with nothing else to do: over a network another thread reads, and the caller waits.
 */
import { StoreError } from '../../errors.ts'
import { errorCode } from '../../log/files.ts'
import type { Files, OpenFile } from '../../log/files.ts'
import { RECORDS_NAME, segmentName } from '../../log/segment-format.ts'
import { STAND_IN_NAME } from '../../log/stand-in.ts'

/** A file of a bundle, open for reading. */
export interface BundleFile {
  size(): number
  /** Fills `into` from byte `at`. @returns how many bytes it read: fewer only at the end of the file @throws the error of the system, or a StoreError */
  read(into: Uint8Array, at: number): number
  close(): void
}

/** A place of a file that will be read soon. */
export interface ExpectedRead {
  readonly base: number
  readonly at: number
}

export interface SegmentFiles {
  /** How a client is refused when a read fails. */
  readonly failure: 'bundle_read_failed' | 'object_storage_read_failed'
  /** @throws StoreError: `bundle_index_corrupt` when a bundle lacks this sidecar alone, else `failure` */
  open(base: number, name: string): BundleFile
  /** Whether hints of `expect` help; a disk reads at once and needs none. */
  readonly readsAhead: boolean
  /** Hint: these places of the files of this name are read next, in this order. */
  expect(name: string, reads: readonly ExpectedRead[]): void
}

/** The files below the directory of a log's segments. */
export class LocalSegmentFiles implements SegmentFiles {
  readonly failure = 'bundle_read_failed'
  readonly readsAhead = false
  readonly #files: Files
  readonly #directory: string

  constructor(files: Files, directory: string) {
    this.#files = files
    this.#directory = directory
  }

  open(base: number, name: string): OpenFile {
    const files = this.#files
    const directory = `${this.#directory}/${segmentName(base)}`
    const path = `${directory}/${name}`
    try {
      return files.open(path, 'read')
    } catch (error) {
      // A bundle that retention dropped is gone as a whole; a sidecar that is gone alone can be built again.
      const isSidecar = name !== RECORDS_NAME && name !== STAND_IN_NAME
      if (isSidecar && !files.exists(path) && files.exists(directory)) {
        const problem = `bundle ${segmentName(base)}: ${name} is missing; it has to be rebuilt`
        throw new StoreError('corrupt', 'bundle_index_corrupt', problem)
      }
      const problem = `bundle ${segmentName(base)}: ${name} cannot be opened (${errorCode(error)})`
      throw new StoreError('unavailable', this.failure, problem, { cause: error })
    }
  }

  expect(): void {}
}
