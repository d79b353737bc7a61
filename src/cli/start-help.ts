/** `npm start -- --help`. */
import { brokerSettings } from '../config/broker.ts'
import { SERVICES } from '../config/config.ts'
import { logStoreSettings } from '../config/logstore.ts'
import { objectStoreSettings } from '../config/objectstore.ts'
import { processSettings } from '../config/process.ts'
import type { SettingsTable } from '../config/settings.ts'
import { settingLines } from './setting-lines.ts'

const USAGE = `trilog runs the log store, the object store and the broker in one process.

  npm start                           start all; SIGTERM or Ctrl-C stops them, SIGHUP reads the files that settings name again
  npm start -- --services <NAME,...>  start some of: ${SERVICES.join(', ')}
  npm start -- --version              show the release
  npm start -- --help                 show this

Settings are environment variables. Each is shown with its default and its meaning.`

const TABLES: readonly (readonly [title: string, settings: SettingsTable])[] = [
  ['the process', processSettings],
  ['the log store', logStoreSettings],
  ['the object store', objectStoreSettings],
  ['the broker (mq has flags for them as well: npx mq --help)', brokerSettings],
]

export function startHelp(): string {
  const sections = TABLES.flatMap(([title, settings]) => [
    '',
    `Settings of ${title}`,
    ...settingLines(Object.entries(settings).map(([name, setting]) => [[name], setting])),
  ])
  return [USAGE, ...sections].join('\n')
}
