import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { HttpResponseParser, ProtocolError } from '../../../bench/load/http-response-parser.ts'
import type { HttpResponse } from '../../../bench/load/http-response-parser.ts'

function parseInPieces(bytes: Buffer, cuts: readonly number[]): HttpResponse[] {
  const parser = new HttpResponseParser()
  const edges = [0, ...cuts.map((cut) => cut % (bytes.byteLength + 1)).sort((a, b) => a - b), bytes.byteLength]
  return edges.slice(1).flatMap((end, index) => parser.push(bytes.subarray(edges[index], end)) ?? [])
}

function parse(text: string): HttpResponse | null {
  return new HttpResponseParser().push(Buffer.from(text))
}

describe('the response parser', () => {
  it('reads the same answer wherever the network cuts it', () => {
    const anyCuts = fc.array(fc.nat(), { maxLength: 12 })
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), anyCuts, fc.boolean(), (body, cuts, interim) => {
        const head = `HTTP/1.1 429 Too Many Requests\r\ncontent-TYPE: Application/JSON\r\nRetry-After: 7\r\n`
        const bytes = Buffer.concat([
          Buffer.from(interim ? 'HTTP/1.1 100 Continue\r\n\r\n' : ''),
          Buffer.from(`${head}Content-Length: ${body.byteLength}\r\n\r\n`),
          body,
        ])
        const expected = { status: 429, retryAfterSeconds: 7, contentType: 'application/json', keepAlive: true }
        assert.deepEqual(parseInPieces(bytes, cuts), [{ ...expected, body: Buffer.from(body) }])
      }),
    )
  })

  it('reads one answer after the other on the same connection', () => {
    const parser = new HttpResponseParser()
    for (const body of ['a', '', 'ccc']) {
      const response = parser.push(Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`))
      assert.equal(response?.body.toString(), body)
    }
  })

  it('knows an answer without a body, and one after which the connection closes', () => {
    assert.equal(parse('HTTP/1.1 204 No Content\r\n\r\n')?.body.byteLength, 0)
    assert.equal(parse('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')?.keepAlive, false)
  })

  it('refuses what it cannot read instead of guessing', () => {
    for (const answer of [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
      'HTTP/1.1 200 OK\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab',
      'HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n',
      'SSH-2.0-OpenSSH_9.2\r\n\r\n',
      `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}`,
    ]) {
      assert.throws(() => parse(answer), ProtocolError)
    }
  })
})
