/**
 * Runs the steps of `npm run check`, two at a time, and prints the output of each when it has ended. Exits with 0 when all passed, else with 1.
 *
 * Each step has half of the cores: more threads on one program's types would work out again what the others know.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { text } from 'node:stream/consumers'

/** Scripts of package.json, the longest first. */
const STEPS = ['lint', 'typecheck', 'unused', 'format:check']
const AT_ONCE = 2

const coresOfStep = Math.max(1, Math.floor(availableParallelism() / AT_ONCE))
const env = { ...process.env, GOMAXPROCS: String(coresOfStep) }
const steps = [...STEPS]
await Promise.all(Array.from({ length: AT_ONCE }, runSteps))

async function runSteps(): Promise<void> {
  for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
    const child = spawn('npm', ['run', '--silent', step], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const [said, complaint, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    process.stdout.write(`${step}: ${code === 0 ? 'passed' : 'FAILED'}\n${said}${complaint}`)
    if (code !== 0) process.exitCode = 1
  }
}
