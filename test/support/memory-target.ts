/** A place for backups in memory. */
import type { BackupTarget, ListedFile } from '../../src/maintenance/target.ts'
import { missingFile } from '../../src/maintenance/target.ts'

export class MemoryTarget implements BackupTarget {
  readonly name = 'memory'
  readonly files = new Map<string, Buffer>()
  /** Keys, in the order in which they were put. */
  readonly puts: string[] = []
  /** Whether the backup dies instead of putting the next file. */
  dies: () => boolean = () => false

  async list(prefix: string): Promise<readonly ListedFile[]> {
    const found = [...this.files].filter(([key]) => key.startsWith(prefix))
    return found.map(([key, content]) => ({ key, bytes: content.byteLength }))
  }

  async put(key: string, _bytes: number, pieces: Iterable<Uint8Array>): Promise<void> {
    if (this.dies()) throw new Error('killed')
    const copied = Array.from(pieces, (piece) => Buffer.from(piece))
    this.files.set(key, Buffer.concat(copied))
    this.puts.push(key)
  }

  async *read(key: string): AsyncIterable<Uint8Array> {
    const content = this.files.get(key)
    if (content === undefined) throw missingFile(this.name, key)
    yield content
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.files.delete(key)
  }

  async close(): Promise<void> {}
}
