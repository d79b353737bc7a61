import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { failToStartBroker } from '../../support/broker.ts'
import { temporaryDirectory } from '../../support/process.ts'

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
