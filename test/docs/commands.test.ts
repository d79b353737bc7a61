import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from '../../src/cli/command.ts'
import { COMMANDS } from '../../src/cli/commands.ts'
import { LOGS_COMMANDS } from '../../src/cli/commands/logs.ts'
import { codeOf, handbook, tableOf } from './markdown.ts'

const PLACES = { local: 'data directory', remote: 'node', store: 'log store', nowhere: '' } as const

const written = (program: string, { name, operands, options }: Command): string =>
  [program, name, ...operands, ...options.map(({ flags, required }) => (required ? flags : `[${flags}]`))].join(' ')

test("the table of the broker's command line is that of the code: names, operands, options, places", () => {
  assert.deepEqual(
    tableOf(handbook(), 'The command line of the broker').map(([command, where, what]) => [
      codeOf(command),
      where,
      what,
    ]),
    COMMANDS.map((command) => [
      written('mq', command),
      command.places.map((place) => PLACES[place]).join(', '),
      command.description,
    ]),
  )
})

test('the table of trilog logs is that of the code: names, operands, options', () => {
  assert.deepEqual(
    tableOf(handbook(), 'Asking a log store').map(([command, what]) => [codeOf(command), what]),
    LOGS_COMMANDS.map((command) => [written('trilog', command), command.description]),
  )
})
