import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClientConfig, SdkError } from '../../src/client/index.ts'
import type { ClientSettings } from '../../src/client/index.ts'

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

describe('the configuration of a client', () => {
  const bad: readonly (readonly [what: string, settings: unknown, named: RegExp])[] = [
    ['no settings', undefined, /^the settings /],
    ['null', null, /^the settings /],
    ['settings that are a text', 'web', /^the settings /],
    ['no producer id', {}, /^producerId /],
    ['a blank producer id', { producerId: ' \t' }, /^producerId /],
    ['a producer id with control characters', { producerId: 'a\n' }, /^producerId /],
    ['a negative epoch', { producerId: 'p', epoch: -1 }, /^epoch /],
    ['an epoch that is no integer', { producerId: 'p', epoch: 1.5 }, /^epoch /],
    ['a durability there is not', { producerId: 'p', defaultDurability: 'local-disk' }, /^defaultDurability /],
    [
      'headers in a Map',
      { producerId: 'p', defaultHeaders: new Map([['a', 'b']]) },
      /defaultHeaders must be an object/,
    ],
    ['headers in a text', { producerId: 'p', defaultHeaders: 'a: b' }, /defaultHeaders must be an object/],
    ['a blank name of a header', { producerId: 'p', defaultHeaders: { ' ': 'x' } }, /default header/],
    ['a header that is no string', { producerId: 'p', defaultHeaders: { a: 1 } }, /default header/],
    ['a header that is no text', { producerId: 'p', defaultHeaders: { a: '\ud800' } }, /default header/],
    [
      'a traceparent in capitals',
      { producerId: 'p', traceContext: { traceparent: TRACEPARENT.toUpperCase() } },
      /^trace/,
    ],
    [
      'a traceparent of zeros',
      { producerId: 'p', traceContext: { traceparent: TRACEPARENT.replace(/-\w{16}-/, `-${'0'.repeat(16)}-`) } },
      /^trace/,
    ],
    [
      'a traceparent of no version',
      { producerId: 'p', traceContext: { traceparent: TRACEPARENT.replace('00', 'ff') } },
      /^trace/,
    ],
    [
      'a blank tracestate',
      { producerId: 'p', traceContext: { traceparent: TRACEPARENT, tracestate: '' } },
      /tracestate/,
    ],
  ]
  for (const [what, settings, named] of bad) {
    it(`is refused, and the field named: ${what}`, () => {
      assert.throws(
        () => new ClientConfig(settings as ClientSettings),
        (error) =>
          error instanceof SdkError && error.code === 'InvalidConfig' && !error.retryable && named.test(error.message),
      )
    })
  }

  it('needs no more than a producer id', () => {
    const config = new ClientConfig({ producerId: 'web' })
    assert.deepEqual([config.epoch, config.defaultDurability, config.traceContext], [null, null, null])
    assert.deepEqual(config.headersOf(null), { 'x-producer-id': 'web' })
  })

  it("adds headers that a record's own win over, but for those that say who it is of", () => {
    const config = new ClientConfig({
      producerId: 'web',
      epoch: 7,
      defaultHeaders: { source: 'shop', region: 'eu' },
      traceContext: { traceparent: TRACEPARENT, tracestate: 'a=1' },
    })
    assert.deepEqual(config.headersOf({ region: 'us', tracestate: 'b=2', 'x-producer-id': 'somebody' }), {
      source: 'shop',
      region: 'us',
      traceparent: TRACEPARENT,
      tracestate: 'b=2',
      'x-producer-id': 'web',
      'x-producer-epoch': '7',
    })
  })

  it('stays as it was when the settings change', () => {
    const defaultHeaders: Record<string, string> = { source: 'shop' }
    const config = new ClientConfig({ producerId: 'web', defaultHeaders })
    defaultHeaders['source'] = 'elsewhere'
    assert.equal(config.headersOf(null)['source'], 'shop')
  })
})
