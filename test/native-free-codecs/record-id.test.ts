import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { BatchHasher, HEAD_BYTES } from '../../native-free-codecs/blake2s.ts'
import { formatRecordId, parseRecordId } from '../../native-free-codecs/record-id-text.ts'
import { groupPrefix, writeRecordHead } from '../../native-free-codecs/record-id.ts'

interface Input {
  tenant: string
  dataset: string
  signal: number
  resource: Uint8Array
  scope: Uint8Array
  resourceSchemaUrl: Uint8Array
  scopeSchemaUrl: Uint8Array
  record: Uint8Array
  ordinal: number
  batchDigest: Buffer | null
}

const hasher = new BatchHasher()

function idOf(input: Input): string {
  const { tenant, dataset, signal, resource, scope, record, ordinal, batchDigest } = input
  const words = new Uint32Array(4)
  const prefix = groupPrefix(tenant, dataset, signal, resource, scope, input.resourceSchemaUrl, input.scopeSchemaUrl)
  const head = Buffer.alloc(HEAD_BYTES, 0xff)
  writeRecordHead(head, 0, prefix, ordinal, batchDigest)
  hasher.idsInto(words, record, Uint32Array.of(0), Uint32Array.of(record.length), Uint16Array.of(0), head, 1, 1)
  return formatRecordId(words, 0)
}

const sha256 = (...parts: Uint8Array[]): Buffer => createHash('sha256').update(Buffer.concat(parts)).digest()
const blake2s = (...parts: Uint8Array[]): Buffer => createHash('blake2s256').update(Buffer.concat(parts)).digest()

const NOTHING = Buffer.alloc(0)
const base: Input = {
  tenant: 'local',
  dataset: 'checkout',
  signal: 1,
  resource: Buffer.from('resource'),
  scope: Buffer.from('scope'),
  resourceSchemaUrl: NOTHING,
  scopeSchemaUrl: NOTHING,
  record: Buffer.from('record'),
  ordinal: 0,
  batchDigest: null,
}

describe('a record id', () => {
  it('is the documented hash', () => {
    const u32 = (value: number) => Buffer.of(value >>> 24, value >>> 16, value >>> 8, value)
    const sized = (text: string) => Buffer.concat([u32(text.length), Buffer.from(text)])
    const fields = [Buffer.of(1, 1), sized('local'), sized('checkout'), sized('resource'), sized('scope')]
    const prefix = sha256(...fields)
    const expected = blake2s(prefix, u32(3), Buffer.alloc(28), Buffer.from('record')).toString('hex', 0, 16)
    assert.equal(idOf({ ...base, ordinal: 3 }), `logstore_${expected}`)
    const digest = sha256(Buffer.from('batch'))
    const message = [prefix, u32(0), Buffer.of(1), digest.subarray(0, 27), Buffer.from('record')]
    const timeless = blake2s(...message).toString('hex', 0, 16)
    assert.equal(idOf({ ...base, batchDigest: digest }), `logstore_${timeless}`)
    const withUrl = blake2s(sha256(...fields, sized(''), sized('url')), Buffer.alloc(32), Buffer.from('record'))
    assert.equal(idOf({ ...base, scopeSchemaUrl: Buffer.from('url') }), `logstore_${withUrl.toString('hex', 0, 16)}`)
  })

  it('changes with every input', () => {
    const variants: Input[] = [
      base,
      { ...base, tenant: 'locaL' },
      { ...base, dataset: 'checkouts' },
      { ...base, signal: 2 },
      { ...base, resource: Buffer.from('resourcf') },
      { ...base, scope: Buffer.alloc(0) },
      { ...base, resourceSchemaUrl: Buffer.from('url') },
      { ...base, scopeSchemaUrl: Buffer.from('url') },
      { ...base, record: Buffer.from('recore') },
      { ...base, ordinal: 1 },
      { ...base, ordinal: 256 },
      { ...base, batchDigest: sha256(Buffer.from('one batch')) },
      { ...base, batchDigest: sha256(Buffer.from('another batch')) },
      // The same bytes, split between fields at other places.
      { ...base, tenant: 'localcheck', dataset: 'out' },
      { ...base, resource: Buffer.from('resources'), scope: Buffer.from('cope') },
    ]
    assert.equal(new Set(variants.map(idOf)).size, variants.length)
  })
})

describe('the text of a record id', () => {
  it('is read back to the same words', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (id) => {
        const text = `logstore_${Buffer.from(id).toString('hex')}`
        const words = new Uint32Array(5)
        assert.equal(parseRecordId(text, words, 1), true)
        assert.equal(formatRecordId(words, 1), text)
        assert.equal(words[1], Buffer.from(id).readUInt32BE(0)) // words compare like the bytes
      }),
    )
  })

  it('is nothing else', () => {
    const words = Uint32Array.of(1, 2, 3, 4)
    const good = `logstore_${'0f'.repeat(16)}`
    for (const text of [
      '',
      'logstore_',
      good.slice(1),
      `${good}0`,
      good.slice(0, -1),
      good.toUpperCase(),
      `${good}\n`,
      good.replace('0', 'g'),
    ]) {
      assert.equal(parseRecordId(text, words, 0), false, text)
    }
    assert.deepEqual([...words], [1, 2, 3, 4])
  })
})

test('two different inputs have two ids', () => {
  const bytes = fc.uint8Array({ maxLength: 6 })
  const inputs = fc.record({
    tenant: fc.string({ maxLength: 4 }),
    dataset: fc.string({ maxLength: 4 }),
    signal: fc.constantFrom(1, 2),
    resource: bytes,
    scope: bytes,
    resourceSchemaUrl: bytes,
    scopeSchemaUrl: bytes,
    record: bytes,
    ordinal: fc.nat({ max: 511 }),
    batchDigest: fc.option(fc.uint8Array({ minLength: 32, maxLength: 32 }).map((digest) => Buffer.from(digest))),
  })
  const spelled = (input: Input) =>
    JSON.stringify(input, (_, value: unknown) => (value instanceof Uint8Array ? [...value] : value))
  fc.assert(
    fc.property(inputs, inputs, (a, b) => {
      assert.equal(idOf(a) === idOf(b), spelled(a) === spelled(b))
    }),
  )
})
