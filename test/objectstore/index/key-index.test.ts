import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KeyIndex } from '../../../src/objectstore/index/key-index.ts'
import type { Listing } from '../../../src/objectstore/index/scan.ts'
import {
  FLAG_COMPOSITE,
  FLAG_CRC32,
  FLAG_CRC32C,
  FLAG_CRC64NVME,
  FLAG_ENCRYPTED_CUSTOMER,
  FLAG_ENCRYPTED_KMS,
  FLAG_ENCRYPTED_S3,
  FLAG_SHA1,
  FLAG_SHA256,
  FLAG_TAGS,
} from '../../../src/objectstore/index/value.ts'
import { put, valueOf } from './support.ts'

const utf8 = (text: string): Buffer => Buffer.from(text)
const keysOf = ({ keys }: Listing): string[] => keys.map(({ key }) => key.toString())
const prefixesOf = ({ commonPrefixes }: Listing): string[] => commonPrefixes.map(String)

describe('the key index', () => {
  it('gives back what was put, and what was there before', () => {
    const index = KeyIndex.create()
    assert.equal(index.get(1, utf8('k')), null)
    assert.equal(index.put(1, utf8('k'), valueOf(1)), null)
    assert.deepEqual(index.put(1, utf8('k'), valueOf(2)), valueOf(1))
    assert.deepEqual(index.get(1, utf8('k')), valueOf(2))
    assert.equal(index.size(1), 1)
    assert.deepEqual(index.delete(1, utf8('k')), valueOf(2))
    assert.equal(index.delete(1, utf8('k')), null)
    assert.equal(index.get(1, utf8('k')), null)
    assert.equal(index.size(1), 0)
  })

  it('keeps the highest values there are', () => {
    const highest = { ...valueOf(0), position: 2 ** 48 - 1, size: 2 ** 48 - 1, lastModifiedMs: 2 ** 48 - 1 }
    const value = { ...highest, commitSequence: 2 ** 48 - 1, etag: 'f'.repeat(32), parts: 65_535, flags: 65_535 }
    const index = KeyIndex.create()
    index.put(2 ** 32 - 1, utf8('k'), value)
    assert.deepEqual(index.get(2 ** 32 - 1, utf8('k')), value)
  })

  it('has flags that do not overlap', () => {
    const checksums = [FLAG_CRC32, FLAG_CRC32C, FLAG_CRC64NVME, FLAG_SHA1, FLAG_SHA256, FLAG_COMPOSITE]
    const encryption = [FLAG_ENCRYPTED_S3, FLAG_ENCRYPTED_KMS, FLAG_ENCRYPTED_CUSTOMER]
    const flags = [FLAG_TAGS, ...checksums, ...encryption]
    assert.equal(
      flags.reduce((all, flag) => all | flag, 0),
      flags.reduce((sum, flag) => sum + flag, 0),
    )
  })

  it('refuses what would not read back as it is, and is not changed by it', () => {
    const index = KeyIndex.create()
    index.put(1, utf8('k'), valueOf(1))
    assert.throws(() => index.put(1, utf8('k'), { ...valueOf(2), size: 2 ** 48 }), RangeError)
    assert.throws(() => index.put(1, utf8('k'), { ...valueOf(2), parts: 65_536 }), RangeError)
    assert.throws(() => index.put(1, utf8('k'), { ...valueOf(2), etag: 'abc' }), /32 hex digits/)
    assert.throws(() => index.put(1, Buffer.alloc(1025), valueOf(2)), /1024 bytes/)
    assert.deepEqual(index.get(1, utf8('k')), valueOf(1))
    assert.equal(index.size(1), 1)
  })

  it('takes the empty key and keys of 1024 bytes', () => {
    const index = KeyIndex.create()
    const longest = Buffer.alloc(1024, 0xff)
    index.put(1, Buffer.alloc(0), valueOf(1))
    index.put(1, longest, valueOf(2))
    assert.deepEqual(index.get(1, Buffer.alloc(0)), valueOf(1))
    assert.deepEqual(index.get(1, longest), valueOf(2))
    assert.deepEqual(index.firstKey(1), Buffer.alloc(0))
    assert.deepEqual(
      index.scan(1, { after: longest.subarray(1), max: 9 }).keys.map(({ key }) => key.length),
      [1024],
    )
    assert.deepEqual(keysOf(index.scan(1, { after: longest, max: 9 })), [])
  })

  it('keeps buckets apart', () => {
    const index = KeyIndex.create()
    put(index, 1, 'z')
    put(index, 2, 'a', 'b')
    put(index, 256, 'c')
    assert.deepEqual([index.size(1), index.size(2), index.size(3), index.size(256)], [1, 2, 0, 1])
    assert.equal(index.firstKey(2)?.toString(), 'a')
    assert.equal(index.firstKey(3), null)
    assert.deepEqual(keysOf(index.scan(1, { max: 10 })), ['z'])
    assert.deepEqual(keysOf(index.scan(2, { max: 10 })), ['a', 'b'])
    assert.deepEqual(keysOf(index.scan(3, { max: 10 })), [])
  })
})

describe('a listing', () => {
  it('is in the order of bytes, which for UTF-8 is not that of JavaScript strings', () => {
    const index = KeyIndex.create()
    const keys = ['\u{1f600}', '\uff5e', 'é', 'z', 'a', 'a\0', 'Z', 'ab']
    for (const key of keys) index.put(1, utf8(key), valueOf(0))
    assert.deepEqual(keysOf(index.scan(1, { max: 10 })), ['Z', 'a', 'a\0', 'ab', 'z', 'é', '\uff5e', '\u{1f600}'])
  })

  it('begins behind a key, or at a place', () => {
    const index = KeyIndex.create()
    put(index, 1, 'a', 'b', 'c')
    assert.deepEqual(keysOf(index.scan(1, { after: utf8('a'), max: 10 })), ['b', 'c'])
    assert.deepEqual(keysOf(index.scan(1, { after: utf8('aa'), max: 10 })), ['b', 'c'])
    assert.deepEqual(keysOf(index.scan(1, { from: utf8('b'), max: 10 })), ['b', 'c'])
    assert.deepEqual(keysOf(index.scan(1, { from: utf8('b'), after: utf8('b'), max: 10 })), ['c'])
    assert.deepEqual(keysOf(index.scan(1, { after: utf8('c'), max: 10 })), [])
  })

  it('rolls keys up at the first delimiter behind the prefix', () => {
    const index = KeyIndex.create()
    put(index, 1, 'a', 'b/', 'b/1', 'b/2/x', 'c', 'd//e')
    const root = index.scan(1, { delimiter: utf8('/'), max: 10 })
    assert.deepEqual(
      [keysOf(root), prefixesOf(root)],
      [
        ['a', 'c'],
        ['b/', 'd/'],
      ],
    )
    const inside = index.scan(1, { prefix: utf8('b/'), delimiter: utf8('/'), max: 10 })
    assert.deepEqual([keysOf(inside), prefixesOf(inside)], [['b/', 'b/1'], ['b/2/']])
    const long = index.scan(1, { delimiter: utf8('//'), max: 10 })
    assert.deepEqual([keysOf(long), prefixesOf(long)], [['a', 'b/', 'b/1', 'b/2/x', 'c'], ['d//']])
    assert.equal(index.scan(1, { delimiter: utf8(''), max: 10 }).keys.length, 6)
  })

  it('rolls up at the first delimiter of those that begin alike', () => {
    const index = KeyIndex.create()
    put(index, 1, 'aaaaabaaab', 'aabaaaabaab', 'abaabab', 'ababaababaab', 'xab')
    const prefixes = (delimiter: string): string[] => prefixesOf(index.scan(1, { delimiter: utf8(delimiter), max: 10 }))
    assert.deepEqual(prefixes('aaab'), ['aaaaab', 'aabaaaab'])
    assert.deepEqual(prefixes('aabaab'), ['aabaaaabaab'])
    assert.deepEqual(prefixes('abab'), ['abaabab', 'abab'])
    assert.deepEqual(prefixes('ab'), ['aaaaab', 'aab', 'ab', 'xab'])
  })

  it('compares each byte of a key twice at most with a long delimiter, however alike they are', () => {
    const [keys, keyBytes] = [20, 1024]
    const index = KeyIndex.create()
    for (let i = 0; i < keys; i++) index.put(1, utf8('a'.repeat(keyBytes - 2) + (10 + i)), valueOf(i))
    for (const delimiter of [`${'a'.repeat(512)}b`, `${'a'.repeat(256)}b${'a'.repeat(256)}`, `b${'a'.repeat(512)}`]) {
      let looks = 0
      const counted = new Proxy(utf8(delimiter), {
        get(bytes, name) {
          if (typeof name === 'string' && /^\d+$/.test(name)) looks++
          return Reflect.get(bytes, name)
        },
      })
      const { keys: listed, commonPrefixes } = index.scan(1, { delimiter: counted, max: keys })
      assert.deepEqual([listed.length, commonPrefixes.length], [keys, 0])
      assert.ok(looks <= 3 * keyBytes * (keys + 2), `${looks} looks at ${delimiter.length} bytes`)
    }
  })

  it('counts keys and common prefixes alike, and says where to go on', () => {
    const index = KeyIndex.create()
    put(index, 1, 'a/1', 'a/2', 'b', 'c/1')
    const first = index.scan(1, { delimiter: utf8('/'), max: 1 })
    assert.deepEqual([keysOf(first), prefixesOf(first)], [[], ['a/']])
    const second = index.scan(1, { delimiter: utf8('/'), from: first.next!, max: 1 })
    assert.deepEqual([keysOf(second), prefixesOf(second)], [['b'], []])
    const third = index.scan(1, { delimiter: utf8('/'), from: second.next!, max: 1 })
    assert.deepEqual([prefixesOf(third), third.next], [['c/'], null])
  })

  it('is not truncated when just all fits, nor when nothing was asked for', () => {
    const index = KeyIndex.create()
    put(index, 1, 'a', 'b')
    put(index, 2, 'c')
    assert.equal(index.scan(1, { max: 2 }).next, null)
    assert.deepEqual(index.scan(1, { max: 0 }), { keys: [], commonPrefixes: [], next: null })
  })

  it('finds no end behind the highest keys and buckets', () => {
    const index = KeyIndex.create()
    const delimiter = Buffer.of(0xff)
    index.put(2 ** 32 - 1, Buffer.of(0xff, 0xff), valueOf(1))
    index.put(2 ** 32 - 1, Buffer.of(0xff), valueOf(2))
    const { keys, commonPrefixes, next } = index.scan(2 ** 32 - 1, { delimiter, max: 1 })
    assert.deepEqual([keys, commonPrefixes, next], [[], [Buffer.of(0xff)], null])
  })

  it('of a prefix that is longer than any key is empty', () => {
    const index = KeyIndex.create()
    index.put(1, Buffer.alloc(1024, 0x61), valueOf(1))
    assert.equal(index.scan(1, { prefix: Buffer.alloc(1024, 0x61), max: 1 }).keys.length, 1)
    assert.equal(index.scan(1, { prefix: Buffer.alloc(1025, 0x61), max: 1 }).keys.length, 0)
  })
})
