/** `mq --help`. */
import { brokerSettings } from '../config/broker.ts'
import { clusterSettings } from '../config/cluster.ts'
import { processSettings } from '../config/process.ts'
import { settingLines } from './setting-lines.ts'

const USAGE = `mq runs the broker: streams, replay and shared queues over HTTP.

  mq [flags]                    start a node; SIGTERM or Ctrl-C stops it, SIGHUP reads the files that settings name again
  mq --validate-config [flags]  show the settings and what is wrong with them; exit code 2 if anything is. Nothing is started
  mq --version                  show the release
  mq --help                     show this

  mq cli …                      work with streams, on a data directory or on a node: mq cli --help
  mq diagnostics …              collect what support needs to know: mq diagnostics --help
  mq completion <shell>         print the completion of bash, zsh or fish

--output json makes --validate-config and --version answer in JSON.

Flags of the node, the same as environment variables, and their defaults. A flag wins over its variable.
`

const OF_THE_PROCESS = `
Environment variables without a flag, and their defaults.
`

export function nodeHelp(): string {
  const flags = Object.entries(brokerSettings).map(
    ([name, setting]) => [[`${setting.flag} ${setting.valueName}`, name], setting] as const,
  )
  const variables = Object.entries({ ...processSettings, ...clusterSettings }).map(
    ([name, setting]) => [[name], setting] as const,
  )
  return [USAGE, ...settingLines(flags), OF_THE_PROCESS, ...settingLines(variables)].join('\n')
}
