/** The tour of docs/traces.md, against a log store. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { LogStoreServer } from '../support/logstore.ts'
import { Tail } from '../support/tail.ts'
import { blocksOf, document } from './markdown.ts'
import { runTour, shownPattern } from './tour.ts'

const text = document('docs/traces.md')

it('the tour runs block by block, and a tail shows what it says', async () => {
  const server = await LogStoreServer.start()
  const [command, shown] = blocksOf(text, 'tail')
  const path = /4318([^']*)'/.exec(command!.text)![1]!
  const tail = await Tail.open(server, path)
  await runTour(blocksOf(text.replaceAll('127.0.0.1:4318', server.readyLine.http), 'tour'))
  const lines = shown!.text.trimEnd().split('\n')
  await tail.until(() => tail.text.split('\n').length > lines.length)
  for (const [at, line] of tail.text.split('\n').slice(0, lines.length).entries()) {
    // A line of a record that ends in `,…}` leaves out its last members.
    const pattern = lines[at]!.endsWith(',…}')
      ? shownPattern(lines[at]!.slice(0, -',…}'.length))
      : shownPattern(lines[at]!)
    assert.match(lines[at]!.endsWith(',…}') ? line.slice(0, line.indexOf(',"tenant_id"')) : line, pattern)
  }
  tail.close()
  await server.stop()
})
