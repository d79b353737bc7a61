/** The settings of all services, as one command takes them. */
import { brokerSettings } from './broker.ts'
import { clusterSettings } from './cluster.ts'
import { consoleSettings } from './console.ts'
import { logStoreSettings } from './logstore.ts'
import { objectStoreSettings } from './objectstore.ts'
import { processSettings, startSettings } from './process.ts'
import type { SettingsTable } from './settings.ts'

interface Section {
  /** Heading of the group of settings. */
  readonly title: string
  /** Prefix of their names. Null: other variables have names with the same beginning. */
  readonly prefix: string | null
  readonly settings: SettingsTable
}

export const SECTIONS: readonly Section[] = [
  { title: 'the process', prefix: null, settings: { ...startSettings, ...processSettings } },
  { title: 'the cluster', prefix: 'TRILOG_CLUSTER_', settings: clusterSettings },
  { title: 'the console', prefix: 'TRILOG_CONSOLE_', settings: consoleSettings },
  { title: 'the log store', prefix: 'LOGSTORE_', settings: logStoreSettings },
  { title: 'the object store', prefix: 'OBJSTORE_', settings: objectStoreSettings },
  { title: 'the broker', prefix: 'MQ_', settings: brokerSettings },
]

export const allSettings: SettingsTable = Object.assign({}, ...SECTIONS.map(({ settings }) => settings))

/** `--logstore-data-dir` for LOGSTORE_DATA_DIR. */
export const flagOf = (name: string): string =>
  `--${name
    .replace(/^TRILOG_/, '')
    .toLowerCase()
    .replaceAll('_', '-')}`
