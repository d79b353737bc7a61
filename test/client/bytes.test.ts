import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { bytesOf, hexOf, isBytes, portableBytesOf, portableHexOf, textOf } from '../../src/client/bytes.ts'
import { codePoint } from '../support/code-point.ts'

test('what browsers do to bytes and what Node does is the same', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const hex = portableHexOf(bytes)
      assert.equal(hex, hexOf(bytes))
      assert.deepEqual([...portableBytesOf(hex)], [...bytes])
      assert.deepEqual([...bytesOf(hex)], [...bytes])
    }),
  )
})

test('bytes are those of any realm, and nothing else', () => {
  for (const bytes of [new Uint8Array(1), Buffer.from('a'), runInNewContext('new Uint8Array(1)')]) {
    assert.equal(isBytes(bytes), true)
  }
  for (const other of [new Uint16Array(1), new DataView(new ArrayBuffer(1)), new ArrayBuffer(1), [1], 'a', null, {}]) {
    assert.equal(isBytes(other), false)
  }
})

test('text comes back as it was, what looks like a byte order mark included', () => {
  fc.assert(
    fc.property(fc.string({ unit: codePoint }), fc.boolean(), (text, isMarked) => {
      const whole = `${isMarked ? '\ufeff' : ''}${text.toWellFormed()}`
      assert.equal(textOf(new TextEncoder().encode(whole)), whole)
    }),
  )
})
