/**
 * A checkpoint, written bit by bit by a thread of its own: begin, parts, end. Under its name it is there whole or not at all.
 *
 * One is written at a time. A `begin` gives up what was begun before.
 */
import type { CheckpointFile } from '../../log/checkpoint.ts'
import { beginCheckpoint } from '../../log/checkpoint.ts'
import type { Files } from '../../log/files.ts'

export type WriteTask =
  | { readonly kind: 'begin'; readonly directory: string; readonly position: number }
  | { readonly kind: 'part'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' }

export class CheckpointThread {
  readonly #files: Files
  #open: CheckpointFile | null = null

  constructor(files: Files) {
    this.#files = files
  }

  run(task: WriteTask): void {
    if (task.kind === 'begin') {
      const before = this.#open
      this.#open = null
      before?.abandon()
      this.#open = beginCheckpoint(this.#files, task.directory, task.position)
      return
    }
    const open = this.#open
    if (open === null) throw new Error('a part of a checkpoint that was not begun: the thread died meanwhile')
    this.#open = null // what fails is abandoned
    if (task.kind === 'end') return open.publish()
    open.write(task.bytes)
    this.#open = open
  }
}
