/** `trilog --help`. */
import { SECTIONS, flagOf } from '../config/all-settings.ts'
import { settingLines } from './setting-lines.ts'
import type { Style } from './style.ts'

const USAGE = `trilog runs the log store, the object store and the broker in one process.

  trilog start [flags]       start the services; SIGTERM or Ctrl-C stops them, SIGHUP reads the files that settings name again
  trilog check [flags]       look at every setting, file and directory, and start nothing; exit code 2 when anything is wrong
  trilog config [flags]      show every setting and where it comes from
  trilog health [flags]      ask the services that these settings start whether they are ready; exit code 1 when one is not
  trilog logs …              search, follow and export what a log store has: trilog logs --help
  trilog backup …            copy the data of a node while it runs, to a directory or a bucket: trilog backup --help
  trilog restore …           create a data directory from a backup: trilog restore --help
  trilog inspect <directory> read a data directory and say what is damaged
  trilog cluster …           show the nodes of a cluster, give the lead to another one: trilog cluster --help
  trilog completion <shell>  print the completion of bash, zsh or fish
  trilog --version           show the release
  trilog --help              show this

  --output json   check, config, health and --version answer in JSON

In a checkout, npm start -- [flags] is trilog start.

Every setting is an environment variable and a flag, and may stand in the file of TRILOG_CONFIG: a flag wins over the variable, the
variable over the file. Each is shown with its default and its meaning.`

export function trilogHelp(style: Style): string {
  const sections = SECTIONS.flatMap(({ title, settings }) => [
    '',
    style.heading(`Settings of ${title}`),
    ...settingLines(Object.entries(settings).map(([name, setting]) => [[name, flagOf(name)], setting])),
  ])
  return [USAGE, ...sections].join('\n')
}
