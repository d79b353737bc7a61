/**
 * Lives of a cluster in a simulated world, each from a seed: test/simulation/cluster-life.ts, where the laws are. `--help` says how.
 *
 * Exits with 0 when every law held, 1 when one was broken (the message names the seed, which does it again), 2 for bad usage.
 */
import { parseArgs } from 'node:util'
import { LawBroken, liveCluster } from '../test/simulation/cluster-life.ts'

const USAGE = `usage: npm run simulate:cluster -- [--seeds 1000] [--from 1]
       npm run simulate:cluster -- --seed N

--seeds  lives
--from   the first seed
--seed   one life again
`
const REPORT_MS = 10_000

const asked = parse()
if (asked === null) {
  process.stderr.write(USAGE)
  process.exit(2)
}
if (!run(asked.first, asked.count)) process.exitCode = 1

function run(first: number, count: number): boolean {
  const counts = new Map<string, number>()
  const beganMs = performance.now()
  let [lives, events, acknowledged, reportedMs] = [0, 0, 0, beganMs]
  const say = (): void => {
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(1)
    console.log(
      `seeds ${first} to ${first + lives - 1}: ${events} events, ${acknowledged} writes acknowledged, in ${seconds} s`,
    )
  }
  for (let seed = first; seed < first + count; seed += 1) {
    try {
      const report = liveCluster({ seed })
      lives += 1
      events += report.events
      acknowledged += report.acknowledged
      for (const [what, times] of report.counts) counts.set(what, (counts.get(what) ?? 0) + times)
    } catch (error) {
      if (!(error instanceof LawBroken)) throw error
      console.log(error.message)
      console.log(error.cause)
      console.log(`npm run simulate:cluster -- --seed ${seed}   repeats it`)
      return false
    }
    if (performance.now() - reportedMs < REPORT_MS) continue
    reportedMs = performance.now()
    say()
  }
  say()
  console.log([...counts].map(([what, times]) => `${what}: ${times}`).join(', '))
  return true
}

function parse() {
  try {
    const { values } = parseArgs({
      options: {
        seeds: { type: 'string', default: '1000' },
        from: { type: 'string', default: '1' },
        seed: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    })
    const first = Number(values.seed ?? values.from)
    const count = values.seed === undefined ? Number(values.seeds) : 1
    return Number.isInteger(first) && count >= 1 && !values.help ? { first, count } : null
  } catch {
    return null
  }
}
