/** The load tool in a process of its own, which sends to a log store. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

export interface LogLoad {
  /** What it printed, when it has ended. */
  readonly output: Promise<string>
  readonly end: () => void
}

/** @param args of `npm run load -- logstore` */
export function logLoad(url: string, args: readonly string[]): LogLoad {
  const child = spawn(
    process.execPath,
    ['--v8-pool-size=0', 'bench/load/main.ts', 'logstore', '--url', url, '--disk-time', '0s', ...args],
    { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
  return { output: once(child, 'exit').then(() => text), end: () => child.kill('SIGINT') }
}
