import assert from 'node:assert/strict'
import { test } from 'node:test'
import { processSettings } from '../../src/config/config.ts'
import { logStoreSettings } from '../../src/config/logstore.ts'
import { codeOf, document, tableOf } from './markdown.ts'

const settings = Object.entries({ ...logStoreSettings, ...processSettings })

test("the README's table of settings is that of the code: names, defaults, descriptions", () => {
  const shown = tableOf(document('README.md'), 'Settings').map(([name, fallback, meaning]) => [
    codeOf(name),
    fallback,
    meaning,
  ])
  const cellOf = (fallback: string | undefined): string => {
    if (fallback === undefined) return 'unset'
    return fallback === '' ? 'empty' : `\`${fallback}\``
  }
  assert.deepEqual(
    shown,
    settings.map(([name, { default: fallback, description }]) => [name, cellOf(fallback), description]),
  )
})

test('the documents name no setting that there is not', () => {
  const known = new Set(settings.map(([name]) => name))
  for (const name of ['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md']) {
    const named = document(name).match(/\b(LOGSTORE|TRILOG)_[A-Z0-9_]*[A-Z0-9]\b(?!_)/g) ?? []
    assert.deepEqual(
      named.filter((each) => !known.has(each)),
      [],
      name,
    )
  }
})
