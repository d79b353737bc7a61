import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { refusalKind } from '../../../bench/load/logstore/refusal.ts'
import { statusType } from './otlp-types.ts'

function answer(contentType: string, body: Uint8Array) {
  return { status: 429, retryAfterSeconds: null, contentType, keepAlive: true, body: Buffer.from(body) }
}

describe('the kind of a refusal', () => {
  it('is read from the message of a google.rpc.Status', () => {
    const details = [{ type_url: 'type.googleapis.com/google.rpc.ErrorInfo', value: Buffer.from('x') }]
    const bytes = statusType.encode({ code: 8, message: 'record_quota_exceeded: try again in 2 s', details }).finish()
    assert.equal(refusalKind(answer('application/x-protobuf', bytes)), 'record_quota_exceeded')
  })

  it('is read from the JSON envelope', () => {
    const envelope = { status: 'rejected', retryable: true, error: { kind: 'byte_quota_exceeded', message: 'x' } }
    const body = Buffer.from(JSON.stringify(envelope))
    assert.equal(refusalKind(answer('application/json; charset=utf-8', body)), 'byte_quota_exceeded')
  })

  it('is a plain word or unknown, whatever the server sends', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.constantFrom('application/json', 'application/x-protobuf', ''), (body, type) => {
        assert.match(refusalKind(answer(type, body)), /^[a-z][a-z0-9_]*$/)
      }),
    )
    for (const body of ['null', '{"error":null}', '{"error":{"kind":7}}', '{"error":{"kind":"<b>"}}', '<html>']) {
      assert.equal(refusalKind(answer('application/json', Buffer.from(body))), 'unknown')
    }
  })
})
