import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { BrokerServer, failToStartBroker } from '../../support/broker.ts'
import { temporaryDirectory } from '../../support/directories.ts'

describe('a directory that cannot be written', () => {
  const file = `${temporaryDirectory()}/file`
  writeFileSync(file, '')

  for (const [what, flags] of [
    ['the data directory, below a file', ['--data-dir', `${file}/data`]],
    ['the data directory, which the system does not let anybody make', ['--data-dir', '/proc/trilog']],
  ] as const) {
    it(`ends the start with one line that names the setting: ${what}`, async () => {
      const { code, stdout, stderr } = await failToStartBroker(flags)
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /^--data-dir: [^\n]+\n$/)
    })
  }
})

describe('a log whose damage keeps it from being read', () => {
  it('ends the start with one line that names the setting and the directory', async () => {
    const broker = await BrokerServer.start()
    const stream = await broker.newStream()
    await stream.publish()
    await broker.stop()
    const path = `${broker.dataDirectory}/segments/0000000000000000/records.log`
    const content = readFileSync(path)
    content[content.indexOf(`"stream":"${stream.name}","default_durability"`)]! ^= 1
    writeFileSync(path, content)
    const { code, stdout, stderr } = await failToStartBroker(['--data-dir', broker.dataDirectory])
    assert.deepEqual([code, stdout], [2, ''])
    const line = stderr.split('\n').filter((each) => each !== '' && !each.startsWith('{'))
    assert.equal(line.length, 1, stderr)
    assert(line[0]!.startsWith(`--data-dir: ${broker.dataDirectory}: the frame of type `), line[0])
  })
})
