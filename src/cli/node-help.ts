/** `mq --help`. */
import { brokerSettings } from '../config/broker.ts'
import { columns } from './columns.ts'

const USAGE = `mq runs the broker: streams, replay and shared queues over HTTP.

  mq [flags]                    start a node; SIGTERM or Ctrl-C stops it, SIGHUP reads the quotas file again
  mq --validate-config [flags]  show the settings and what is wrong with them; exit code 2 if anything is. Nothing is started
  mq --version                  show the release
  mq --help                     show this

--output json makes --validate-config and --version answer in JSON.

Flags of the node, the same as environment variables, and their defaults. A flag wins over its variable.
`

export function nodeHelp(): string {
  const settings = Object.entries(brokerSettings)
  const heads = columns(
    settings.map(([name, { flag, valueName, default: fallback }]) => [
      `  ${flag} ${valueName}`,
      name,
      fallback || 'unset',
    ]),
  )
  const descriptions = settings.map(([, { description }]) => `      ${description.replaceAll('`', '')}`)
  return [USAGE, ...heads.flatMap((head, index) => [head, descriptions[index]!])].join('\n')
}
