/** Load generator: `npm run load -- <service> [options]`. See `--help`. */
import { lowerHelperPriority } from '../../src/pipeline/niceness.ts'
import { runCommand } from './command.ts'

lowerHelperPriority() // their work for this tool would hold up threads of the server that is measured

const stop = new AbortController()
const onSignal = (): void => {
  if (stop.signal.aborted) process.exit(130) // asked twice: no summary
  stop.abort()
}
process.on('SIGINT', onSignal)
process.on('SIGTERM', onSignal)

process.exitCode = await runCommand(process.argv.slice(2), {
  stdout: (text) => process.stdout.write(text),
  stderr: {
    isTerminal: process.stderr.isTTY, // undefined when redirected, which is as good as false
    columns: process.stderr.columns ?? 80,
    write: (text) => process.stderr.write(text),
  },
  nowMs: () => performance.now(),
  stop: stop.signal,
})
process.off('SIGINT', onSignal)
process.off('SIGTERM', onSignal)
