/** What `npm start` runs: the services of `--services`, or all. */
import release from '../package.json' with { type: 'json' }
import { startHelp } from './cli/start-help.ts'
import { loadConfig } from './config/config.ts'
import { run } from './run.ts'

const args = process.argv.slice(2)
if (args.includes('--help')) process.stdout.write(`${startHelp()}\n`)
else if (args.includes('--version')) process.stdout.write(`trilog ${release.version}\nnode ${process.versions.node}\n`)
else await run(() => loadConfig(process.env, args))
