/**
 * What a test file has started and made. It ends with the file, as other files follow in the same process: processes first, which would
 * write into their directories.
 */
import type { ChildProcess } from 'node:child_process'
import { rmSync } from 'node:fs'

const running = new Set<() => void>()
export const directories = new Set<string>()

/** For a process that a failed test would leave. */
export function killAtEnd<Child extends ChildProcess>(
  child: Child,
  kill = (): void => void child.kill('SIGKILL'),
): Child {
  running.add(kill)
  child.once('exit', () => running.delete(kill))
  return child
}

/** The runner calls this. A file that runs without it ends with its process. */
export function endFile(): void {
  for (const kill of running) kill()
  running.clear()
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
  directories.clear()
}

process.on('exit', endFile)
