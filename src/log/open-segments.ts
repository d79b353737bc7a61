/**
 * Files of segments that a reader keeps open: those used last.
 *
 * O1  a file is of the generation of the log in which it was opened: one that was removed when the log was cut may hold other frames at the same
 *     positions
 * O2  the file of a dropped segment is closed: while it is open, the disk keeps its space
 */
const OPEN_FILES_MAX = 64

export class OpenSegments<File extends { close(): void }> {
  readonly #max: number
  /** By base, in order of use. */
  readonly #files = new Map<number, File>()
  #oldestBase = 0
  #generation = 0

  constructor(max = OPEN_FILES_MAX) {
    this.#max = max
  }

  /** Closes what must not be read any more (O1, O2). @param oldestBase of the log's oldest segment */
  begin(oldestBase: number, generation: number): void {
    if (generation !== this.#generation) this.closeAll()
    else if (oldestBase !== this.#oldestBase) this.closeBefore(oldestBase)
    this.#generation = generation
    this.#oldestBase = oldestBase
  }

  get(base: number): File | undefined {
    const file = this.#files.get(base)
    if (file === undefined) return undefined
    this.#files.delete(base)
    this.#files.set(base, file)
    return file
  }

  /** @param file of a segment that has none here @returns it */
  add(base: number, file: File): File {
    this.#files.set(base, file)
    if (this.#files.size > this.#max) this.close(this.#files.keys().next().value!)
    return file
  }

  close(base: number): void {
    this.#files.get(base)?.close()
    this.#files.delete(base)
  }

  closeBefore(oldestBase: number): void {
    for (const base of this.#files.keys()) if (base < oldestBase) this.close(base)
  }

  closeAll(): void {
    this.closeBefore(Infinity)
  }
}
