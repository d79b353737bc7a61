/**
 * Long runs of the real services under adversity, with everything acknowledged looked for afterwards. `--help` says which.
 *
 * Exits with 0 when nothing was wrong, 1 when something was (the message says what, the seed how to do it again), 2 for bad usage.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { runBrokerKillRounds } from './soak/broker/kill.ts'
import { runReplicateRounds } from './soak/broker/replicate.ts'
import { runClean } from './soak/clean.ts'
import { runKillRounds } from './soak/logstore/kill.ts'
import { runObjectKillRounds } from './soak/objectstore/kill.ts'
import { runOverload } from './soak/logstore/overload.ts'

const USAGE = `usage: npm run soak -- kill        [--rounds 200] [--seed N] [--replicated] [--compacting] [--merging]
       npm run soak -- overload    [--duration 60s] [--seed N]
       npm run soak -- broker-kill [--rounds 200] [--seed N] [--replicated]
       npm run soak -- broker-replicate [--rounds 200] [--seed N]
       npm run soak -- object-kill [--rounds 200] [--seed N]
       npm run soak -- object-clean [--duration 60s] [--seed N]
       npm run soak -- broker-clean [--duration 60s] [--seed N]

kill         kill -9 of the log store under load, again and again, on one data directory; with --compacting or --merging while it compacts a bundle, or merges some
overload     four times the connections that the log store can serve, with quotas on
broker-kill  kill -9 of the broker under load, likewise: records, leases, cursors, streams that come and go, the streaming connection, what is shipped to it
broker-replicate kill -9 of two brokers that replicate to each other over a way that loses and repeats
object-kill  kill -9 of the object store under load, likewise
object-clean objects that are overwritten at a steady pace: the log of the object store stays below its bound
broker-clean records that are soon removed, likewise: the log of the broker stays below its bound
`

const NAMES = [
  'kill',
  'overload',
  'broker-kill',
  'broker-replicate',
  'object-kill',
  'object-clean',
  'broker-clean',
] as const

const options = {
  rounds: { type: 'string', default: '200' },
  duration: { type: 'string', default: '60s' },
  seed: { type: 'string', default: String(randomInt(2 ** 32)) },
  replicated: { type: 'boolean', default: false },
  compacting: { type: 'boolean', default: false },
  merging: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} satisfies ParseArgsOptionsConfig

const soak = parse()
if (soak === null) {
  process.stderr.write(USAGE)
  process.exit(2)
}
const report = (line: string): void => console.log(line)
report(`${soak.name}, seed ${soak.seed}`)
if (soak.name === 'kill') console.log(await runKillRounds({ ...soak, report }))
else if (soak.name === 'broker-kill') console.log(await runBrokerKillRounds({ ...soak, report }))
else if (soak.name === 'broker-replicate') console.log(await runReplicateRounds({ ...soak, report }))
else if (soak.name === 'object-kill') console.log(await runObjectKillRounds({ ...soak, report }))
else if (soak.name === 'object-clean') console.log(await runClean({ ...soak, service: 'objectstore', report }))
else if (soak.name === 'broker-clean') console.log(await runClean({ ...soak, service: 'broker', report }))
else console.log(await runOverload({ ...soak, report }))

function isKnown(name: string | undefined): name is (typeof NAMES)[number] {
  return NAMES.some((known) => known === name)
}

function parse() {
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true })
    const [name] = positionals
    const rounds = Number(values.rounds)
    const seed = Number(values.seed)
    const seconds = Number(/^(\d+)s$/.exec(values.duration)?.[1])
    const isUsable = rounds >= 1 && seed >= 0 && seconds >= 1 && positionals.length === 1 && !values.help
    if (!isUsable || !isKnown(name)) return null
    const { replicated, compacting, merging } = values
    return { name, rounds, seed, seconds, replicated, compacting, merging } as const
  } catch {
    return null
  }
}
