import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COMMANDS } from '../../src/cli/commands.ts'
import { codeOf, handbook, tableOf } from './markdown.ts'

const PLACES = { local: 'data directory', remote: 'node', nowhere: '' } as const

test("the table of the broker's command line is that of the code: names, operands, options, places", () => {
  assert.deepEqual(
    tableOf(handbook(), 'The command line of the broker').map(([command, where, what]) => [
      codeOf(command),
      where,
      what,
    ]),
    COMMANDS.map(({ name, operands, options, places, description }) => [
      ['mq', name, ...operands, ...options.map(({ flags, required }) => (required ? flags : `[${flags}]`))].join(' '),
      places.map((place) => PLACES[place]).join(', '),
      description,
    ]),
  )
})
