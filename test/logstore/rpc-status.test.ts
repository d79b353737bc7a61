import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { rpcTypes } from '../../src/logstore/proto-types.ts'
import { REFUSALS, REFUSAL_KINDS, permanentRefusal, refusal } from '../../src/logstore/refusals.ts'
import { encodeRpcStatus } from '../../src/logstore/rpc-status.ts'
import { decodeStatus } from '../support/decode-status.ts'

describe('a refusal as google.rpc.Status', () => {
  it('names its kind in the message and in ErrorInfo, and has the code of its kind', () => {
    assert.deepEqual(decodeStatus(encodeRpcStatus(refusal('malformed_batch', 'field 3 ends early'))), {
      code: 3,
      message: 'malformed_batch: field 3 ends early',
      reason: 'malformed_batch',
      domain: 'logstore.trilog',
      retryAfterSeconds: null,
    })
  })

  it('says in RetryInfo when to come back', () => {
    const status = decodeStatus(encodeRpcStatus(refusal('record_quota_exceeded', 'the window is full', 7)))
    assert.equal(status.retryAfterSeconds, 7)
  })

  it('has a RetryInfo exactly when the request may be repeated, for every kind', () => {
    const refusals = fc.tuple(
      fc.constantFrom(...REFUSAL_KINDS),
      fc.string(),
      fc.integer({ min: 1, max: 86_400 }),
      fc.boolean(),
    )
    fc.assert(
      fc.property(refusals, ([kind, message, seconds, neverFits]) => {
        const refused = neverFits ? permanentRefusal(kind, message) : refusal(kind, message, seconds)
        const status = decodeStatus(encodeRpcStatus(refused))
        assert.equal(status.code, REFUSALS[kind].grpc)
        assert.equal(status.reason, kind)
        assert.equal(status.message, `${kind}: ${message}`)
        assert.equal(status.retryAfterSeconds, refused.retryable ? seconds : null)
      }),
    )
  })

  it('is the same bytes that the published field numbers demand', () => {
    // Status { 1: code, 2: message, 3: details [ Any { 1: type_url, 2: value } ] }
    const bytes = Buffer.from(encodeRpcStatus(refusal('empty_batch', 'x')))
    assert.deepEqual(bytes.subarray(0, 4), Buffer.from([0x08, 3, 0x12, 14]))
    assert.equal(bytes.toString('latin1', 4, 18), 'empty_batch: x')
    assert.equal(bytes[18], 0x1a)
    assert.equal(bytes[20], 0x0a)
    assert.equal(bytes.toString('latin1', 22, 22 + bytes[21]!), 'type.googleapis.com/google.rpc.ErrorInfo')
  })
})

describe('the google.rpc types', () => {
  it('are loaded once', () => {
    assert.equal(rpcTypes(), rpcTypes())
  })
})
