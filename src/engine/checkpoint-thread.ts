/**
 * A checkpoint, written in parts by a thread of its own: begin, parts, end. It gets its name only when it is whole.
 *
 * T1  one checkpoint is written at a time. A `begin` gives up an unfinished one
 * T2  a replica directory that fails is left out; the log leaves it out as well, and says so. A failure of the primary one fails the
 *     checkpoint
 * T3  a file is ended once: its descriptor may be another thread's file a moment later
 */
import type { CheckpointFile } from '../log/checkpoint.ts'
import { beginCheckpoint } from '../log/checkpoint.ts'
import type { Files } from '../log/files.ts'

export type CheckpointTask =
  /** The first directory is the primary one. */
  | { readonly kind: 'begin'; readonly directories: readonly string[]; readonly position: number }
  | { readonly kind: 'part'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' }

/** Memory that is handed over with a task. */
export const memoryOf = (task: CheckpointTask): ArrayBuffer[] => (task.kind === 'part' ? [task.bytes.buffer] : [])

export class CheckpointThread {
  readonly #files: Files
  #primary: CheckpointFile | null = null
  #others: readonly CheckpointFile[] = []

  constructor(files: Files) {
    this.#files = files
  }

  /** @throws what the file system throws: what was there before still counts */
  run(task: CheckpointTask): void {
    if (task.kind === 'begin') return this.#begin(task.directories, task.position)
    const primary = this.#primary
    if (primary === null) throw new Error('a part of a checkpoint that was not begun: the thread died meanwhile')
    const others = this.#others
    this.#primary = null // what fails is abandoned, what ends is no longer ours (T3)
    this.#others = []
    if (task.kind === 'end') {
      for (const file of others) succeeds(() => file.publish())
      primary.publish()
    } else {
      this.#others = others.filter((file) => succeeds(() => file.write(task.bytes)))
      primary.write(task.bytes)
      this.#primary = primary
    }
  }

  /** T1, T2 */
  #begin([primary, ...others]: readonly string[], position: number): void {
    const before = [...this.#others, ...(this.#primary === null ? [] : [this.#primary])]
    this.#primary = null
    this.#others = []
    for (const file of before) succeeds(() => file.abandon())
    this.#primary = beginCheckpoint(this.#files, primary!, position)
    for (const directory of others) {
      succeeds(() => {
        this.#others = [...this.#others, beginCheckpoint(this.#files, directory, position)]
      })
    }
  }
}

function succeeds(run: () => void): boolean {
  try {
    run()
    return true
  } catch {
    return false
  }
}
