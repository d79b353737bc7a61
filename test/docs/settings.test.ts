import assert from 'node:assert/strict'
import { test } from 'node:test'
import { brokerSettings } from '../../src/config/broker.ts'
import { clusterSettings } from '../../src/config/cluster.ts'
import { consoleSettings } from '../../src/config/console.ts'
import { logStoreSettings } from '../../src/config/logstore.ts'
import { objectStoreSettings } from '../../src/config/objectstore.ts'
import { processSettings, startSettings } from '../../src/config/process.ts'
import type { SettingsTable } from '../../src/config/settings.ts'
import { PAGES, codeOf, document, handbook, tableOf } from './markdown.ts'

const pages = handbook()

const cellOf = (fallback: string | undefined): string => {
  if (fallback === undefined) return 'unset'
  return fallback === '' ? 'empty' : `\`${fallback}\``
}

const TABLES: Readonly<Record<string, SettingsTable>> = {
  'Settings of the log store': logStoreSettings,
  'Settings of the object store': objectStoreSettings,
  'Settings of the process': { ...startSettings, ...processSettings },
  'Settings of the console': consoleSettings,
  'Settings of the cluster': clusterSettings,
}

for (const [heading, settings] of Object.entries(TABLES)) {
  test(`the table "${heading}" is that of the code: names, defaults, descriptions`, () => {
    assert.deepEqual(
      tableOf(pages, heading).map(([name, fallback, meaning]) => [codeOf(name), fallback, meaning]),
      Object.entries(settings).map(([name, { default: fallback, description }]) => [
        name,
        cellOf(fallback),
        description,
      ]),
    )
  })
}

test("the table of the broker's settings is that of the code, flags included", () => {
  assert.deepEqual(
    tableOf(pages, 'Settings of the broker').map(([flag, name, fallback, meaning]) => [
      codeOf(flag),
      codeOf(name),
      fallback,
      meaning,
    ]),
    Object.entries(brokerSettings).map(([name, { flag, valueName, default: fallback, description }]) => [
      `${flag} ${valueName}`,
      name,
      cellOf(fallback),
      description,
    ]),
  )
})

test('the documents name no setting that there is not', () => {
  const known = new Set([
    ...Object.keys({
      ...logStoreSettings,
      ...objectStoreSettings,
      ...brokerSettings,
      ...startSettings,
      ...processSettings,
      ...consoleSettings,
      ...clusterSettings,
    }),
    // settings of command lines, not of a service
    'MQ_API_KEY',
    'TRILOG_LOGS_TARGET',
    'TRILOG_LOGS_TENANT',
    'TRILOG_LOGS_TOKEN',
  ])
  for (const name of [...PAGES, 'ARCHITECTURE.md', 'CHANGELOG.md']) {
    const named = document(name).match(/\b(LOGSTORE|OBJSTORE|MQ|TRILOG)_[A-Z0-9_]*[A-Z0-9]\b(?!_)/g) ?? []
    assert.deepEqual(
      named.filter((each) => !known.has(each)),
      [],
      name,
    )
  }
})
