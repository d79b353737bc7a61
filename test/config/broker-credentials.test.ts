import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { readBrokerCredentials } from '../../src/config/broker-credentials.ts'
import { temporaryDirectory } from '../support/directories.ts'

const KEY = 'a'.repeat(64)
const keyed = {
  keys: [
    { key_sha256: KEY, tenant: 'acme', principal: 'ci', grants: [{ permission: 'stream.publish', stream: 'orders*' }] },
  ],
}
const named = {
  keys: [{ subject: 'CN=ci', tenant: 'acme', principal: 'ci', grants: [{ permission: 'tenant.inspect' }] }],
}

describe('credentials of the broker', () => {
  for (const [mode, content] of [
    ['api-key', keyed],
    ['mtls', named],
  ] as const) {
    it(`of ${mode} that are half written, cut at any byte, are refused as a whole, without a word of them`, () => {
      const file = `${temporaryDirectory()}/keys.json`
      const bytes = Buffer.from(JSON.stringify(content))
      for (let end = 0; end < bytes.byteLength; end += 1) {
        writeFileSync(file, bytes.subarray(0, end))
        assert.throws(
          () => readBrokerCredentials(file, mode),
          (error: Error) => !error.message.includes(KEY.slice(0, 8)) && !error.message.includes('acme'),
          `the first ${end} bytes`,
        )
      }
      writeFileSync(file, bytes)
      assert.equal(readBrokerCredentials(file, mode).length, 1)
    })
  }
})
