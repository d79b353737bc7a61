/** The command `trilog`. */
import { runTrilog } from './run-trilog.ts'

await runTrilog(process.argv.slice(2))
