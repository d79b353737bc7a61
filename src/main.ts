/** What `npm start` runs: the services of `--services`, or all. */
import { loadConfig } from './config/config.ts'
import { run } from './run.ts'

await run(() => loadConfig(process.env, process.argv.slice(2)))
