/** Settings of certificates for each service: the start reports a wrong one in one line that names the setting. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { parseBrokerCredentials } from '../../src/config/broker-credentials.ts'
import { loadBrokerConfig } from '../../src/config/broker.ts'
import { loadConsoleConfig } from '../../src/config/console.ts'
import { loadLogStoreConfig } from '../../src/config/logstore.ts'
import { loadObjectStoreConfig } from '../../src/config/objectstore.ts'
import { BadConfiguration } from '../../src/config/settings.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'

const authority = new Authority('an authority')
const good = new TlsFilesOnDisk()
good.write(authority.certify([['CN', 'localhost']]), authority)
const other = new TlsFilesOnDisk()
other.write(authority.certify([['CN', 'localhost']]))
const garbage = `${good.directory}/garbage`
writeFileSync(garbage, 'a secret that no message has')
const half = `${good.directory}/half`
writeFileSync(half, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')

const noService = { logstore: null, objectstore: null, broker: null }
const LOADERS = {
  LOGSTORE: loadLogStoreConfig,
  OBJSTORE: loadObjectStoreConfig,
  MQ: loadBrokerConfig,
  TRILOG_CONSOLE: (env: Record<string, string>) => loadConsoleConfig(env, noService)!, // not null: the console is on
}

for (const [prefix, load] of Object.entries(LOADERS)) {
  describe(`the certificates of ${prefix}`, () => {
    const [CERT, KEY, CA] = ['CERT', 'KEY', 'CLIENT_CA'].map((part) => `${prefix}_TLS_${part}_FILE`) as [
      string,
      string,
      string,
    ]
    const problemsOf = (env: Record<string, string>): readonly string[] => {
      try {
        load(env)
        return []
      } catch (error) {
        assert(error instanceof BadConfiguration)
        assert(!error.message.includes('a secret'))
        return error.problems
      }
    }

    it('are a certificate, its key and, if somebody is asked for one, authorities', () => {
      assert.equal(load({}).tls, null)
      const { certFile, keyFile, clientCaFile } = good.settings
      assert.deepEqual(load({ [CERT]: certFile, [KEY]: keyFile }).tls, { ...good.settings, clientCaFile: null })
      assert.deepEqual(load({ [CERT]: certFile, [KEY]: keyFile, [CA]: clientCaFile }).tls, good.settings)
    })

    it('are refused when one of them is missing, unreadable, no PEM or does not fit', () => {
      const { cert, key, clientCa } = good
      assert.deepEqual(problemsOf({ [CERT]: cert }), [`${KEY} must name a file, as ${CERT} does`])
      assert.deepEqual(problemsOf({ [KEY]: key }), [`${CERT} must name a file, as ${KEY} does`])
      assert.deepEqual(problemsOf({ [CA]: clientCa }), [`${CA} needs ${CERT} and ${KEY} as well`])
      assert.deepEqual(problemsOf({ [CERT]: '/nowhere/cert', [KEY]: key }), [
        `${CERT} names a file that does not exist: /nowhere/cert`,
      ])
      assert.deepEqual(problemsOf({ [CERT]: good.directory, [KEY]: key }), [
        `${CERT} names a file that cannot be read: ${good.directory}`,
      ])
      assert.deepEqual(problemsOf({ [CERT]: cert, [KEY]: other.key }), [
        `${KEY} names a file whose key does not fit the certificate`,
      ])
      assert.deepEqual(problemsOf({ [CERT]: cert, [KEY]: garbage }), [
        `${KEY} names a file without a private key in PEM`,
      ])
      const noCertificate = 'names a file without a certificate in PEM, or with one that cannot be read'
      for (const file of [garbage, half]) {
        assert.deepEqual(problemsOf({ [CERT]: file, [KEY]: key }), [`${CERT} ${noCertificate}`])
        assert.deepEqual(problemsOf({ [CERT]: cert, [KEY]: key, [CA]: file }), [`${CA} ${noCertificate}`])
      }
    })

    it('are all looked at, whichever has a mistake', () => {
      assert.deepEqual(problemsOf({ [CERT]: '/nowhere/cert', [KEY]: garbage, [CA]: half }), [
        `${CERT} names a file that does not exist: /nowhere/cert`,
        `${CA} names a file without a certificate in PEM, or with one that cannot be read`,
        `${KEY} names a file without a private key in PEM`,
      ])
      assert.deepEqual(problemsOf({ [CERT]: garbage, [KEY]: '/nowhere/key' }), [
        `${CERT} names a file without a certificate in PEM, or with one that cannot be read`,
        `${KEY} names a file that does not exist: /nowhere/key`,
      ])
    })
  })
}

describe('the credentials of certificates', () => {
  const fileOf = (...keys: object[]): string =>
    JSON.stringify({ keys: keys.map((each) => ({ tenant: 'acme', principal: 'ci', grants: [], ...each })) })
  const digest = { key_sha256: 'a'.repeat(64) }

  it('are in one file with keys, and each mode takes its own', () => {
    const text = fileOf({ subject: 'CN=ci' }, digest)
    for (const [mode, kind] of [
      ['mtls', 'subject'],
      ['api-key', 'keySha256'],
    ] as const) {
      assert.deepEqual(
        parseBrokerCredentials(text, mode).map(({ proof }) => Object.keys(proof)),
        [[kind]],
      )
    }
  })

  it('are refused when they are no name, not alone, there twice in either order, or not there at all', () => {
    const refused = (rule: RegExp, ...keys: object[]): void =>
      assert.throws(() => parseBrokerCredentials(fileOf(...keys), 'mtls'), rule)
    refused(/keys\.0\.subject must be a name as in CN=ci,O=acme/, { subject: 'ci' })
    refused(/keys\.1\.subject is there twice/, { subject: 'CN=a,O=b' }, { subject: 'O=b, CN=a' })
    refused(/keys\.0 needs key_sha256 or subject, one of them/, {})
    refused(/keys\.0 needs key_sha256 or subject, one of them/, { ...digest, subject: 'CN=a' })
    refused(/^.*mistakes: keys\.0\.subject .+, and keys\.2 needs key_sha256 or subject/, { subject: 'ci' }, digest, {})
    refused(/names a file without a subject, which the mode mtls needs/, digest)
  })
})
