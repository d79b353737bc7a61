import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { localAuthenticator } from '../../../../src/objectstore/s3/auth/authenticator.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { presign, signHeader } from '../../../support/signer.ts'

const callerOf = (headers: Readonly<Record<string, string>>) =>
  localAuthenticator.authenticate({ method: 'GET', path: '/', query: '', headers: new Map(Object.entries(headers)) }, 0)

const permissionsOf = (headers: Readonly<Record<string, string>>) => [
  ...(callerOf(headers).principal?.permissions ?? []),
]

describe('in local mode a request', () => {
  it('is of `local` with all permissions when it says nothing', () => {
    assert.equal(callerOf({}).principal?.id, 'local')
    assert.deepEqual(permissionsOf({}), ['read', 'write', 'list', 'delete', 'admin'])
  })

  it('is of whom it says, under either name of the header', () => {
    assert.equal(callerOf({ 'x-obj-principal': 'alice' }).principal?.id, 'alice')
    assert.equal(callerOf({ 'x-amz-principal': 'bob' }).principal?.id, 'bob')
    assert.equal(permissionsOf({ 'x-obj-principal': 'alice' }).length, 5)
  })

  it('has the permissions that it lists, and none when the list is empty', () => {
    assert.deepEqual(permissionsOf({ 'x-obj-permissions': 'read, list,read' }), ['read', 'list'])
    assert.deepEqual(permissionsOf({ 'x-amz-permissions': 'admin' }), ['admin'])
    assert.deepEqual(permissionsOf({ 'x-obj-permissions': '' }), [])
  })

  it('is refused with a permission or principal that cannot be', () => {
    for (const [header, value] of [
      ['x-obj-permissions', 'read,fly'],
      ['x-obj-permissions', 'READ'],
      ['x-obj-principal', 'a b'],
      ['x-obj-principal', 'x'.repeat(129)],
    ] as const) {
      assert.throws(
        () => callerOf({ [header]: value }),
        (error) =>
          error instanceof S3Error && error.code === 'InvalidArgument' && error.fields['ArgumentName'] === header,
      )
    }
  })

  it('may be signed with any key: signatures are not looked at', () => {
    for (const request of [signHeader({ keyId: 'anything', secret: 'x' }), presign({ expires: '-1' })]) {
      const caller = localAuthenticator.authenticate(request, 0)
      assert.equal(caller.principal?.id, 'local')
      assert.equal(caller.chunkSigning, null)
    }
    assert.equal(callerOf({ 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' }).contentSha256, 'UNSIGNED-PAYLOAD')
  })

  it('keeps its principal when it is a form, signed or not', () => {
    const caller = callerOf({ 'x-obj-principal': 'alice' })
    assert.equal(localAuthenticator.authenticateForm(() => 'anything', caller)?.id, 'alice')
  })
})
