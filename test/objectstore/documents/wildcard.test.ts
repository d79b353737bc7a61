/** Patterns of policies and CORS rules against the plainest matcher there is. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { wildcard } from '../../../src/objectstore/documents/wildcard.ts'

function naive(pattern: string, text: string): boolean {
  if (pattern === '') return text === ''
  if (pattern[0] === '*') return naive(pattern.slice(1), text) || (text !== '' && naive(pattern, text.slice(1)))
  return text !== '' && (pattern[0] === '?' || pattern[0] === text[0]) && naive(pattern.slice(1), text.slice(1))
}

describe('a pattern', () => {
  it('has stars for any text and question marks for one character', () => {
    assert.ok(wildcard('a*c')('a/b/c'))
    assert.ok(wildcard('a*')('a'))
    assert.ok(wildcard('*')(''))
    assert.ok(wildcard('a?c')('abc'))
    assert.ok(!wildcard('a?c')('ac'))
    assert.ok(!wildcard('ab*ba')('aba'))
    assert.ok(!wildcard('a')('A'))
    assert.ok(wildcard('')(''))
  })

  it('takes no other sign for more than itself', () => {
    assert.ok(!wildcard('a.c')('abc'))
    assert.ok(wildcard('a[b](c)$^|\\')('a[b](c)$^|\\'))
  })

  it('matches what the plainest matcher does', () => {
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 8 })
    const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 10 })
    fc.assert(
      fc.property(pattern, text, (pattern, text) => assert.equal(wildcard(pattern)(text), naive(pattern, text))),
      { numRuns: 2000 },
    )
  })

  it('does not take longer the more stars it has', () => {
    const key = 'a'.repeat(1024)
    assert.ok(!wildcard('a*'.repeat(10_000) + 'b')(key))
    assert.ok(!wildcard(`${'*a'.repeat(500)}b`)(key))
    assert.ok(!wildcard(`*${'a?'.repeat(250)}b*`)(key))
  })
})
