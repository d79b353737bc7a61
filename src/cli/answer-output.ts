/** stdout of the commands, when it takes no more. `trilog start` and `mq`, which run services, go on without it (src/run.ts). */
import { EXIT_REFUSED } from './failure.ts'

/**
 * If the reader of stdout leaves, that is no failure: the rest is not written. Anything else, such as a full disk, ends the process with exit code 1 and
 * one line.
 *
 * @param onLost is called first in both cases
 */
export function watchStdout(onLost: () => void = () => {}): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    onLost()
    if (error.code === 'EPIPE') return
    process.stderr.write(`error: the answer cannot be written: ${error.message}\n`)
    process.exit(EXIT_REFUSED)
  })
}

/** Writes the whole answer of a command. */
export function writeAnswer(text: string): void {
  watchStdout()
  process.stdout.write(`${text}\n`)
}
