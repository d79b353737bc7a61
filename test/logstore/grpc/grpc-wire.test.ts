import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { MessageHead, framedMessage, isGrpcType, statusText, timeoutMs } from '../../../src/logstore/grpc/grpc-wire.ts'

describe('what gRPC writes over HTTP/2', () => {
  it('the text of a status is visible ASCII, and says the same', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const written = statusText(text)
        assert.match(written, /^[\x20-\x7e]*$/)
        assert.equal(decodeURIComponent(written), text)
      }),
    )
    assert.equal(statusText('50 % ü\n'), '50 %25 %C3%BC%0A')
  })

  it('a time-out is a number of up to 8 digits with its unit', () => {
    const cases: [string, number][] = [
      ['1H', 3_600_000],
      ['2M', 120_000],
      ['10S', 10_000],
      ['250m', 250],
      ['500u', 0.5],
      ['1000000n', 1],
      ['99999999S', 99_999_999_000],
    ]
    for (const [text, ms] of cases) assert.equal(timeoutMs(text), ms)
    for (const text of ['', '10', 'S', '123456789S', '-1S', '1s', '1.5S']) assert.equal(timeoutMs(text), Infinity)
  })

  it('a head of a message is read however it is cut', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.array(fc.integer({ min: 1, max: 4 })), (message, cuts) => {
        const framed = framedMessage(message)
        const head = new MessageHead()
        let at = 0
        for (const cut of [...cuts, 5, 5]) {
          const chunk = framed.subarray(at, at + cut)
          const taken = head.add(chunk)
          at += taken
          if (taken < chunk.byteLength || at === framed.byteLength) break
        }
        assert.deepEqual([head.isWhole, at, head.isCompressed, head.messageBytes], [true, 5, false, message.byteLength])
      }),
    )
    const flagged = new MessageHead()
    flagged.add(Uint8Array.of(1, 0, 0, 0, 7))
    assert.deepEqual([flagged.isCompressed, flagged.messageBytes], [true, 7])
    const unknown = new MessageHead()
    unknown.add(Uint8Array.of(2, 0, 0, 0, 7))
    assert.equal(unknown.isCompressed, null)
  })

  it('tells its content type from others', () => {
    for (const type of ['application/grpc', 'application/grpc+proto', 'application/grpc;x']) assert(isGrpcType(type))
    for (const type of ['', 'application/json', 'application/grpc-web']) assert(!isGrpcType(type))
  })
})
