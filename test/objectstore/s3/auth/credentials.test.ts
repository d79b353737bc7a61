import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { parseCredentials } from '../../../../src/objectstore/s3/auth/credentials.ts'
import { StoreError } from '../../../../src/errors.ts'

const SECRET = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'
const key = {
  access_key_id: 'AKIAIOSFODNN7EXAMPLE',
  secret_access_key: SECRET,
  principal: 'alice',
  permissions: ['read', 'write', 'list', 'delete', 'admin'],
}
const file = (...keys: readonly object[]): string => JSON.stringify({ keys })

function problemOf(text: string): string {
  try {
    parseCredentials(text)
  } catch (error) {
    assert.ok(error instanceof StoreError)
    assert.equal(error.code, 'invalid_credentials_file')
    assert.doesNotMatch(inspect(error, { depth: null }), /wJalr/)
    return error.message
  }
  return assert.fail('accepted')
}

describe('the credentials file', () => {
  it('has keys, each of a principal with permissions', () => {
    const credentials = parseCredentials(
      file(key, { ...key, access_key_id: 'B+/=', principal: 'bob', permissions: ['read'] }),
    )
    assert.deepEqual([...credentials.keys()], ['AKIAIOSFODNN7EXAMPLE', 'B+/='])
    assert.deepEqual(credentials.get('B+/=')?.principal, { id: 'bob', permissions: new Set(['read']) })
  })

  it('may have keys of one principal, with fewer permissions or none', () => {
    const credentials = parseCredentials(file(key, { ...key, access_key_id: 'B', permissions: [] }))
    assert.equal(credentials.get('B')?.principal.permissions.size, 0)
    assert.equal(credentials.get(key.access_key_id)?.principal.permissions.size, 5)
  })

  it('is refused with what is wrong in it, and never a secret', () => {
    for (const [text, problem] of [
      ['', /^names a file that is not valid JSON$/],
      [`{"keys":[{"secret_access_key":"${SECRET}" oops`, /^names a file that is not valid JSON$/],
      [SECRET, /^names a file that is not valid JSON$/],
      [JSON.stringify(SECRET), /^names a file with a mistake: the file must be object$/],
      ['{}', /: keys is missing$/],
      [file(), /: keys must not have fewer than 1 items$/],
      [file({ ...key, principal: undefined }), /: keys\.0\.principal is missing$/],
      [file({ ...key, access_key_id: 'a,b' }), /: keys\.0\.access_key_id /],
      [file({ ...key, access_key_id: '' }), /: keys\.0\.access_key_id /],
      [file(key, { ...key, access_key_id: 'B', secret_access_key: '' }), /: keys\.1\.secret_access_key /],
      [file({ ...key, secret_access_key: SECRET.repeat(9) }), /: keys\.0\.secret_access_key /],
      [file({ ...key, secret_access_key: [SECRET] }), /: keys\.0\.secret_access_key /],
      [file({ ...key, permissions: ['read', 'fly'] }), /: keys\.0\.permissions\.1 /],
      [file({ ...key, [SECRET]: 1 }), /: keys\.0 has an unknown field; known are access_key_id, /],
      [file(key, key), /: keys\.1\.access_key_id is there twice/],
    ] as const) {
      assert.match(problemOf(text), problem)
    }
  })

  it('keeps secrets to itself once read', () => {
    const credentials = parseCredentials(file(key))
    assert.doesNotMatch(
      inspect(credentials, { depth: null, showHidden: true }) + JSON.stringify([...credentials]),
      /wJalr/,
    )
  })
})

test('any text is a credentials file or is refused as none', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      try {
        parseCredentials(text)
      } catch (error) {
        assert.ok(error instanceof StoreError)
      }
    }),
  )
})
