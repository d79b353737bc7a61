/** A small file system of its own. */
import { execFileSync } from 'node:child_process'
import type { TestContext } from 'node:test'
import { temporaryDirectory } from './directories.ts'

const canMount = process.getuid?.() === 0

/** Behind the name of a test: says that it cannot run here. */
export const WHERE_MOUNTED = canMount ? '' : ' (not tried: only root can mount one)'

/** Mounts the disk, and unmounts it when the test is over; null: this user may not mount one. */
export function mountSmallDisk(context: TestContext, megabytes: number): string | null {
  if (!canMount) return null
  const disk = temporaryDirectory()
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', disk])
  context.after(() => execFileSync('umount', ['--lazy', disk]))
  return disk
}
