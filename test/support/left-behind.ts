/**
 * Processes that a test file has started, and directories that it has made. They end with the file, because other files follow in the same
 * process. The processes end first, as they would write into the directories.
 */
import type { ChildProcess } from 'node:child_process'
import { rmSync } from 'node:fs'

const running = new Set<() => void>()
export const directories = new Set<string>()

/** Kills the process with its file, in case a failed test leaves it. */
export function killAtEnd<Child extends ChildProcess>(
  child: Child,
  kill = (): void => void child.kill('SIGKILL'),
): Child {
  running.add(kill)
  child.once('exit', () => running.delete(kill))
  return child
}

/** The runner calls this at the end of each file. If a file runs without the runner, the exit of its process does. */
export function cleanUpTestFile(): void {
  for (const kill of running) kill()
  running.clear()
  for (const directory of directories) rmSync(directory, { recursive: true, force: true })
  directories.clear()
}

process.on('exit', cleanUpTestFile)
