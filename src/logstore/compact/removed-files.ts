/**
 * Removes files that other threads may have open, and keeps them open itself until `freeEarlier`. The system frees what a removed file takes when the last one
 * closes it, which lasts 50 ms and more for a segment: else that would be a query, or the decode lane.
 */
import type { Files, OpenFile } from '../../log/files.ts'

export class RemovedFiles {
  readonly #files: Files
  readonly #open: OpenFile[] = []

  constructor(files: Files) {
    this.#files = files
  }

  remove(path: string): void {
    const file = this.#files.open(path, 'read')
    try {
      this.#files.removeFile(path)
    } catch (error) {
      file.close()
      throw error
    }
    this.#open.push(file)
  }

  /** The others have had time to close what was removed before. */
  freeEarlier(): void {
    for (const file of this.#open.splice(0)) file.close()
  }
}
