/** `npm start -- --help`. */
import { SERVICES } from '../config/config.ts'

export const startHelp = `trilog runs the log store, the object store and the broker in one process.

  npm start                           start all; SIGTERM or Ctrl-C stops them, SIGHUP reads the files that settings name again
  npm start -- --services <NAME,...>  start some of: ${SERVICES.join(', ')}
  npm start -- --help                 show this

Settings are environment variables: README.md has a table for each service, and one for the process.`
