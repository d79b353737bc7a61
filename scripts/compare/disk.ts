import { globSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** What a directory takes of the disk: files may be longer than what was written to them. */
export const bytesBelow = (directory: string): number =>
  globSync('**/*', { cwd: directory }).reduce((sum, path) => sum + blocksOf(join(directory, path)), 0)

function blocksOf(path: string): number {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats?.isFile() ? stats.blocks * 512 : 0
}
