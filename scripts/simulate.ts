/**
 * Lives of the broker, of the object store and of sites that replicate to each other in a simulated world, each from a seed: test/simulation. `--help` says how.
 *
 * Exits with 0 when every law held, 1 when one was broken (the message says which, the seed how to do it again), 2 for bad usage.
 */
import { parseArgs } from 'node:util'
import { SimulationFailed, cutDown, simulate } from '../test/simulation/simulator.ts'
import { WORKLOADS } from '../test/simulation/workloads.ts'

const USAGE = `usage: npm run simulate -- [--seeds 1000] [--from 1] [--workload ${Object.keys(WORKLOADS).join('|')}]
       npm run simulate -- --seed N --workload NAME

--seeds     lives of each workload
--from      the first seed
--seed      repeats one life; if it breaks a law, it is reduced to the steps that are needed
--workload  of one service only
`

const REPORT_MS = 10_000

const asked = parse()
if (asked === null) {
  process.stderr.write(USAGE)
  process.exit(2)
}
for (const name of asked.names) if (!(await run(name, asked.first, asked.count))) process.exitCode = 1

async function run(name: keyof typeof WORKLOADS, first: number, count: number): Promise<boolean> {
  const workload = WORKLOADS[name]
  const beganMs = performance.now()
  const usedBefore = process.cpuUsage()
  let reportedMs = beganMs
  const said = (lives: number, steps: number): string => {
    const seconds = (performance.now() - beganMs) / 1000
    const { user, system } = process.cpuUsage(usedBefore)
    const perSecond = Math.round(steps / ((user + system) / 1e6))
    return `${name}: ${lives} lives, ${steps} steps in ${seconds.toFixed(1)} s, ${perSecond} a second of processor time`
  }
  try {
    const seeds = Array.from({ length: count }, (_, i) => first + i)
    const { lives, steps } = await simulate(workload, seeds, (counts) => {
      if (performance.now() - reportedMs < REPORT_MS) return
      reportedMs = performance.now()
      console.log(said(counts.lives, counts.steps))
    })
    console.log(said(lives, steps))
    return true
  } catch (error) {
    if (!(error instanceof SimulationFailed)) throw error
    console.log(`${name}: ${error.message}`)
    const { plan, taken, cause } = await cutDown(workload, error)
    console.log(`cut down to ${taken} steps:`)
    for (const step of plan.steps.slice(0, taken)) console.log(JSON.stringify(step))
    console.log(cause)
    console.log(`npm run simulate -- --seed ${plan.seed} --workload ${name}   repeats it`)
    return false
  }
}

function parse() {
  try {
    const { values } = parseArgs({
      options: {
        seeds: { type: 'string', default: '1000' },
        from: { type: 'string', default: '1' },
        seed: { type: 'string' },
        workload: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    })
    const all = Object.keys(WORKLOADS) as (keyof typeof WORKLOADS)[] // the keys of what is above
    const names = all.filter((name) => values.workload === undefined || name === values.workload)
    const first = Number(values.seed ?? values.from)
    const count = values.seed === undefined ? Number(values.seeds) : 1
    const isUsable = Number.isInteger(first) && count >= 1 && names.length > 0 && !values.help
    return isUsable ? { names, first, count } : null
  } catch {
    return null
  }
}
