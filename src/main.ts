/** What `npm start` runs: `trilog start`. */
import { runTrilog } from './cli/run-trilog.ts'

await runTrilog(['start', ...process.argv.slice(2)])
