import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { it } from 'node:test'
import { document, root } from './markdown.ts'

it('the architecture says of every thread what it owns', () => {
  const section = document('ARCHITECTURE.md')
    .split(/^## /m)
    .find((each) => each.startsWith('Threads\n'))!
  const named = new Set(section.match(/workers\/[\w-]+\.ts/g))
  assert.deepEqual(
    globSync('workers/*.ts', { cwd: root }).filter((file) => !named.has(file)),
    [],
  )
})
