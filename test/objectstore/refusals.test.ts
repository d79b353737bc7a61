/** Statuses and categories of the object store's refusals, by the contract. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StoreError } from '../../src/errors.ts'
import type { ErrorKind } from '../../src/errors.ts'
import { REFUSALS, S3Error, refuse } from '../../src/objectstore/refusals.ts'
import type { RefusalCategory, RefusalCode } from '../../src/objectstore/refusals.ts'

const ROWS: readonly (readonly [
  status: number,
  category: RefusalCategory,
  kind: ErrorKind,
  ...codes: RefusalCode[],
])[] = [
  [304, 'conflict', 'conflict', 'NotModified'],
  [400, 'client', 'invalid', 'BadDigest', 'InvalidDigest', 'InvalidPart', 'InvalidPartOrder', 'MalformedXML'],
  [400, 'client', 'invalid', 'InvalidArgument', 'InvalidTag', 'InvalidURI', 'RequestTimeout', 'InvalidBucketName'],
  [400, 'client', 'invalid', 'InvalidRequest', 'XAmzContentSHA256Mismatch', 'IncompleteBody', 'InvalidChunkSizeError'],
  [400, 'client', 'invalid', 'MalformedTrailerError', 'MalformedPolicy', 'InvalidPolicyDocument', 'BadRequest'],
  [400, 'client', 'invalid', 'MalformedPOSTRequest', 'UnexpectedContent', 'InvalidEncryptionAlgorithmError'],
  [400, 'client', 'invalid', 'InvalidLocationConstraint', 'IllegalLocationConstraintException', 'InvalidStorageClass'],
  [400, 'auth', 'invalid', 'AuthorizationHeaderMalformed', 'AuthorizationQueryParametersError'],
  [400, 'limit', 'invalid', 'EntityTooLarge', 'EntityTooSmall', 'MetadataTooLarge', 'KeyTooLongError'],
  [
    400,
    'limit',
    'invalid',
    'MaxMessageLengthExceeded',
    'MaxPostPreDataLengthExceededError',
    'RequestHeaderSectionTooLarge',
  ],
  [403, 'auth', 'invalid', 'AccessDenied', 'SignatureDoesNotMatch', 'InvalidAccessKeyId', 'RequestTimeTooSkewed'],
  [404, 'not-found', 'notFound', 'NoSuchBucket', 'NoSuchKey', 'NoSuchUpload', 'NoSuchCORSConfiguration'],
  [404, 'not-found', 'notFound', 'NoSuchBucketPolicy', 'NoSuchVersion'],
  [405, 'client', 'invalid', 'MethodNotAllowed'],
  [409, 'conflict', 'conflict', 'BucketAlreadyOwnedByYou', 'BucketAlreadyExists', 'BucketNotEmpty'],
  [409, 'conflict', 'conflict', 'ConditionalRequestConflict', 'OperationAborted'],
  [411, 'client', 'invalid', 'MissingContentLength'],
  [412, 'conflict', 'conflict', 'PreconditionFailed'],
  [416, 'client', 'invalid', 'InvalidRange', 'InvalidPartNumber'],
  [500, 'server', 'unavailable', 'InternalError'],
  [501, 'client', 'invalid', 'NotImplemented'],
  [503, 'throttle', 'overloaded', 'SlowDown'],
  [503, 'server', 'unavailable', 'ServiceUnavailable'],
]

describe('a refusal', () => {
  for (const [status, category, kind, ...codes] of ROWS) {
    it(`is ${status} and of category ${category} for ${codes.join(', ')}`, () => {
      for (const code of codes) {
        const refusal = refuse(code)
        assert.equal(refusal.status, status, code)
        assert.equal(refusal.category, category, code)
        assert.equal(refusal.kind, kind, code)
      }
    })
  }

  it('is in the table once, and every code is tested', () => {
    const tested = ROWS.flatMap(([, , , ...codes]) => codes).sort()
    assert.deepEqual(Object.keys(REFUSALS).sort(), tested)
  })

  it('is retryable when the same request can succeed later', () => {
    const retryable = Object.entries(REFUSALS).flatMap(([code, rule]) => (rule.retryable ? [code] : []))
    assert.deepEqual(retryable.sort(), [
      'InternalError',
      'OperationAborted',
      'RequestTimeout',
      'ServiceUnavailable',
      'SlowDown',
    ])
  })

  it("says what S3 says, or what is known, with S3's extra fields", () => {
    assert.equal(refuse('NoSuchKey').message, 'The specified key does not exist.')
    const refusal = refuse('InvalidArgument', 'max-keys cannot be negative', {
      fields: { ArgumentName: 'max-keys', ArgumentValue: -1 },
    })
    assert.ok(refusal instanceof S3Error && refusal instanceof StoreError)
    assert.equal(refusal.message, 'max-keys cannot be negative')
    assert.deepEqual(refusal.fields, { ArgumentName: 'max-keys', ArgumentValue: -1 })
    assert.deepEqual(refuse('NoSuchKey').fields, {})
  })

  it('can be made final or passing where more is known', () => {
    assert.equal(refuse('InternalError', 'the body is damaged', { retryable: false }).retryable, false)
    assert.equal(refuse('InternalError').retryable, true)
  })
})
