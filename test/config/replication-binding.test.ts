import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { temporaryDirectory } from '../support/directories.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import { parseReplicationBinding, readReplicationBinding } from '../../src/config/replication-binding.ts'

const policy = {
  name: 'dr',
  streams: ['orders*', 'jobs'],
  source_site: 'a',
  target_site: 'b',
  target_url: 'http://b.example:7400',
}
const bindingOf = (...policies: readonly object[]) =>
  parseReplicationBinding(JSON.stringify({ policies }), { KEY: 'secret', EMPTY: '', BAD: 'a b' })

describe('the authorities of a target', () => {
  const files = new TlsFilesOnDisk()
  const authority = new Authority('targets')
  files.write(authority.certify([['CN', 'localhost']]), authority)
  const secure = { ...policy, target_url: 'https://b.example:7400' }

  it('are read with the file', () => {
    assert.equal(bindingOf({ ...secure, target_ca_file: files.clientCa })[0]?.targetCa, authority.cert)
  })

  it('are refused when they are none, or for nothing', () => {
    const refused = (rule: RegExp, of: object): void => assert.throws(() => bindingOf(of), rule)
    const field = String.raw`policies\.0\.target_ca_file`
    refused(new RegExp(`${field} needs a target_url that begins with https:`), {
      ...policy,
      target_ca_file: files.clientCa,
    })
    refused(new RegExp(`${field} names a file that does not exist`), { ...secure, target_ca_file: '/nowhere' })
    refused(new RegExp(`${field} names a file without a certificate`), { ...secure, target_ca_file: files.key })
  })
})

describe('the certificate that a target is shown', () => {
  const files = new TlsFilesOnDisk()
  const certified = new Authority('clients').certify([['CN', 'site-a']])
  files.write(certified)
  const secure = { ...policy, target_url: 'https://b.example:7400' }
  const both = { target_cert_file: files.cert, target_key_file: files.key }

  it('is read with the file', () => {
    assert.deepEqual(bindingOf({ ...secure, ...both })[0]?.targetCertificate, certified)
  })

  it('is refused when half of it is missing, when its key does not fit, and for a target without TLS', () => {
    const other = new TlsFilesOnDisk()
    other.write(new Authority('others').certify([['CN', 'x']]))
    const rows: readonly (readonly [RegExp, object])[] = [
      [/policies\.0\.target_key_file must name a file, as/, { ...secure, target_cert_file: files.cert }],
      [/policies\.0\.target_cert_file must name a file, as/, { ...secure, target_key_file: files.key }],
      [/policies\.0\.target_cert_file needs a target_url that begins with https:/, { ...policy, ...both }],
      [
        /policies\.0\.target_key_file names a file whose key does not fit/,
        { ...secure, ...both, target_key_file: other.key },
      ],
      [/policies\.0\.target_cert_file names a file that does not/, { ...secure, ...both, target_cert_file: '/none' }],
    ]
    for (const [rule, of] of rows) assert.throws(() => bindingOf(of), rule)
  })
})

describe('the key of a target in a file', () => {
  const directory = temporaryDirectory()
  const file = `${directory}/key`

  it('is read with the binding, without the end of its line', () => {
    writeFileSync(file, 'the-key\n')
    assert.equal(bindingOf({ ...policy, api_key_file: file })[0]?.apiKey, 'the-key')
  })

  it('is refused beside a variable, and when it is none; no message has it', () => {
    writeFileSync(file, 'two words\n')
    assert.throws(() => bindingOf({ ...policy, api_key_file: file }), {
      message: /^(?!.*two words).*policies\.0\.api_key_file names a file that holds no key/,
    })
    assert.throws(() => bindingOf({ ...policy, api_key_file: file, api_key_env: 'KEY' }), {
      message: /policies\.0\.api_key_file excludes api_key_env/,
    })
    assert.throws(() => bindingOf({ ...policy, api_key_file: `${directory}/none` }), {
      message: /policies\.0\.api_key_file names a file that does not exist/,
    })
  })
})

describe('a replication binding', () => {
  it('holds policies; what is absent or null has its default', () => {
    const plain = {
      name: 'dr',
      streams: ['orders*', 'jobs'],
      sourceSite: 'a',
      targetSite: 'b',
      applyUrl: 'http://b.example:7400/v1/replication/target/apply',
      targetCa: null,
      targetCertificate: null,
      apiKey: null,
      maxLagRecords: null,
      forward: false,
      tenant: null,
    }
    assert.deepEqual(bindingOf(policy), [plain])
    assert.deepEqual(bindingOf({ ...policy, api_key_env: null, max_lag_records: null, forward: null }), [plain])
    const all = { api_key_env: 'KEY', max_lag_records: 1000, forward: true, tenant: 'acme' }
    assert.deepEqual(bindingOf({ ...policy, ...all }), [
      { ...plain, apiKey: 'secret', maxLagRecords: 1000, forward: true, tenant: 'acme' },
    ])
  })

  it('takes the address of a target with and without a path', () => {
    const urlOf = (target_url: string): string | undefined => bindingOf({ ...policy, target_url })[0]?.applyUrl
    assert.equal(urlOf('https://b/'), 'https://b/v1/replication/target/apply')
    assert.equal(urlOf('http://b/mq/'), 'http://b/mq/v1/replication/target/apply')
    assert.equal(urlOf('http://b/v1/replication/target/apply'), 'http://b/v1/replication/target/apply')
  })

  it('with a mistake is refused, and the message says where it is and what to do, without a key', () => {
    const refused = (says: RegExp, ...policies: readonly object[]): void =>
      assert.throws(() => bindingOf(...policies), { code: 'invalid_replication_binding', message: says })
    refused(/^names a file with a mistake: policies /)
    refused(/policies\.0\.name/, { ...policy, name: 'a\\b' })
    refused(/policies\.0\.name/, { ...policy, name: ' ' })
    refused(/policies\.1\.name is there twice: give each/, policy, policy)
    refused(/policies\.0\.target_site must differ from source_site$/, { ...policy, target_site: 'a' })
    refused(/policies\.0\.streams/, { ...policy, streams: [] })
    for (const streams of [['a*b'], [' a'], ['a/b'], ['a\n']]) {
      refused(/policies\.0\.streams\.0 must be the name of a stream/, { ...policy, streams })
    }
    for (const target_url of ['b:7400', 'ftp://b', 'http://u:p@b', 'http://b?x', 'http://b#x', 'http://']) {
      refused(/policies\.0\.target_url must be http:\/\/host:port/, { ...policy, target_url })
    }
    for (const api_key_env of ['UNSET', 'EMPTY']) {
      refused(/policies\.0\.api_key_env names a variable that is not set: put the key/, { ...policy, api_key_env })
    }
    refused(/policies\.0\.api_key_env names a variable that holds no key/, { ...policy, api_key_env: 'BAD' })
    refused(/policies\.0\.max_lag_records/, { ...policy, max_lag_records: -1 })
    refused(/policies\.0 has an unknown field; known are name, /, { ...policy, target: 'b' })
    refused(
      /^names a file with mistakes: policies\.0\.target_site .+, and policies\.2\.api_key_env names a variable that is not set/,
      { ...policy, target_site: 'a' },
      { ...policy, name: 'b' },
      { ...policy, name: 'c', api_key_env: 'UNSET' },
    )
    assert.throws(() => parseReplicationBinding('{', {}), { message: 'names a file that is not valid JSON' })
    assert.throws(() => readReplicationBinding('/nowhere/binding.json', {}), {
      message: 'names a file that does not exist: /nowhere/binding.json',
    })
  })
})
