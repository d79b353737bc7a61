/** What `npm start` runs: the services of `--services`, or all. */
import { startHelp } from './cli/start-help.ts'
import { loadConfig } from './config/config.ts'
import { run } from './run.ts'

const args = process.argv.slice(2)
if (args.includes('--help')) process.stdout.write(`${startHelp}\n`)
else await run(() => loadConfig(process.env, args))
