import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { loadConfig } from '../../src/config/config.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'

const consoleOf = (env: Record<string, string>, services?: string) =>
  loadConfig({ ...env, TRILOG_SERVICES: services }).console

describe('the settings of the console', () => {
  it('are 127.0.0.1:7480 unless told otherwise, and off', () => {
    assert.deepEqual(consoleOf({})?.bind, { host: '127.0.0.1', port: 7480 })
    assert.equal(consoleOf({})?.isAsked, false)
    assert.equal(consoleOf({ TRILOG_CONSOLE_BIND: '127.0.0.1:7480' })?.isAsked, true)
    assert.equal(consoleOf({ TRILOG_CONSOLE_BIND: 'off' }), null)
    assert.throws(() => consoleOf({ TRILOG_CONSOLE_BIND: 'of' }), { message: /^TRILOG_CONSOLE_BIND must be host:port/ })
  })

  it('name services elsewhere', () => {
    const { urls } = consoleOf({ TRILOG_CONSOLE_BROKER_URL: 'http://10.0.0.7:7400/' }, 'logstore')!
    assert.deepEqual(urls, { logstore: null, objectstore: null, broker: 'http://10.0.0.7:7400' })
    assert.throws(() => consoleOf({ TRILOG_CONSOLE_BROKER_URL: '10.0.0.7:7400' }), {
      message: 'TRILOG_CONSOLE_BROKER_URL must be an http or https URL, without credentials and query',
    })
  })

  it('refuse an address that others reach while a service behind it may ask for no credentials', () => {
    const open = { TRILOG_CONSOLE_BIND: '0.0.0.0:7480' }
    const message =
      /^TRILOG_CONSOLE_BIND must be a loopback address .+\((logstore, objectstore, broker|objectstore|broker)\)/
    assert.throws(() => consoleOf(open), { message })
    assert.throws(() => consoleOf(open, 'objectstore'), { message })
    assert.equal(consoleOf({ ...open, LOGSTORE_TENANT_POLICY_FILE: '/policy.json' }, 'logstore')?.bind.host, '0.0.0.0')
    assert.equal(consoleOf({ ...open, TRILOG_ALLOW_INSECURE_BIND: '1' })?.bind.host, '0.0.0.0')
    const files = new TlsFilesOnDisk()
    const authority = new Authority('an authority')
    files.write(authority.certify([['CN', 'localhost']]), authority)
    const { cert, key, clientCa } = files
    const secure = { ...open, TRILOG_CONSOLE_TLS_CERT_FILE: cert, TRILOG_CONSOLE_TLS_KEY_FILE: key }
    assert.throws(() => consoleOf(secure), { message }, 'TLS alone lets everybody in')
    assert.equal(consoleOf({ ...secure, TRILOG_CONSOLE_TLS_CLIENT_CA_FILE: clientCa })?.bind.host, '0.0.0.0')
    const elsewhere = { LOGSTORE_TENANT_POLICY_FILE: '/policy.json', TRILOG_CONSOLE_BROKER_URL: 'http://10.0.0.7:7400' }
    assert.throws(() => consoleOf({ ...open, ...elsewhere }, 'logstore'), { message })
  })
})
