/**
 * Removes files that other threads may have open, and keeps them open itself until `freeEarlier`. The system frees the space of a removed file when it is
 * closed for the last time, which takes 50 ms and more for a segment. Otherwise a query or the decode lane would spend that time.
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

  /** Closes the files that were removed earlier: other threads have had time to close them. */
  freeEarlier(): void {
    for (const file of this.#open.splice(0)) file.close()
  }
}
