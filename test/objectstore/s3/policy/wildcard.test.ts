/** Patterns of policies and CORS rules, compared with a naive matcher. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { STEPS_AT_ONCE } from '../../../../src/objectstore/s3/slices.ts'
import { wildcard } from '../../../../src/objectstore/s3/policy/wildcard.ts'

function naive(pattern: string, text: string): boolean {
  if (pattern === '') return text === ''
  if (pattern[0] === '*') return naive(pattern.slice(1), text) || (text !== '' && naive(pattern, text.slice(1)))
  return text !== '' && (pattern[0] === '?' || pattern[0] === text[0]) && naive(pattern.slice(1), text.slice(1))
}

const matches = (pattern: string, text: string): boolean => wildcard(pattern).matches(text)

const standsAt = (piece: string, text: string, at: number): boolean =>
  piece.split('').every((each, i) => each === '?' || each === text[at + i])

/** Whether an `a` follows the leftmost match of a piece. */
function naiveBehind(piece: string, text: string): boolean {
  for (let at = 0; at + piece.length <= text.length; at++) {
    if (standsAt(piece, text, at)) return text.includes('a', at + piece.length)
  }
  return false
}

/** Steps of a search: in all, and the most at once. */
function stepsOf(pattern: string, text: string): { readonly all: number; readonly atOnceMax: number } {
  const steps = [...wildcard(pattern).search(text)]
  return { all: steps.reduce((sum, each) => sum + each, 0), atOnceMax: Math.max(0, ...steps) }
}

/** Most steps by W1. */
const linear = (pattern: string, text: string): number => 3 * (pattern.length + text.length)

describe('a pattern', () => {
  it('has stars for any text and question marks for one character', () => {
    assert.ok(matches('a*c', 'a/b/c'))
    assert.ok(matches('a*', 'a'))
    assert.ok(matches('*', ''))
    assert.ok(matches('a?c', 'abc'))
    assert.ok(!matches('a?c', 'ac'))
    assert.ok(!matches('ab*ba', 'aba'))
    assert.ok(!matches('a', 'A'))
    assert.ok(matches('', ''))
  })

  it('takes no other sign for more than itself', () => {
    assert.ok(!matches('a.c', 'abc'))
    assert.ok(matches('a[b](c)$^|\\', 'a[b](c)$^|\\'))
  })

  it('matches what the plainest matcher does', () => {
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 8 })
    const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 10 })
    fc.assert(
      fc.property(pattern, text, (pattern, text) => assert.equal(matches(pattern, text), naive(pattern, text))),
      { numRuns: 2000 },
    )
  })

  it('matches long texts as the plainest matcher does, over more than one word of bits', () => {
    const piece = fc.string({ unit: fc.constantFrom('a', 'a', 'a', 'b', '?'), minLength: 30, maxLength: 100 })
    const text = fc.string({ unit: fc.constantFrom('a', 'a', 'a', 'a', 'b'), maxLength: 300 })
    const near = fc.tuple(text, piece, text).map(([before, piece, behind]) => {
      return { piece, text: `${before}${piece.replaceAll('?', 'b')}${behind}` }
    })
    const any = fc.record({ piece, text })
    fc.assert(
      fc.property(fc.oneof(any, near), ({ piece, text }) => {
        const places = Array.from({ length: Math.max(0, text.length - piece.length + 1) }, (_, at) => at)
        const stands = places.some((at) => standsAt(piece, text, at))
        assert.equal(matches(`*${piece}*`, text), stands)
        assert.equal(matches(`*${piece}*a*`, text), stands && naiveBehind(piece, text))
      }),
      { numRuns: 500 },
    )
  })

  it('finds characters that stand in it in few places and in many', () => {
    const core = `${'a'.repeat(100)}?xyz?${'b'.repeat(100)}`
    const text = `${'a'.repeat(100)}1xyz2${'b'.repeat(100)}`
    assert.ok(matches(`*${core}*`, `aa${text}bb`))
    assert.ok(!matches(`*${core}*`, `aa${text.replace('y', 'z')}bb`))
    assert.ok(!matches(`*${core}*`, text.slice(1)))
  })

  const key = 'a'.repeat(1024)
  const HARMLESS: readonly (readonly [what: string, pattern: string, text: string])[] = [
    ['many stars', `${'a*'.repeat(10_000)}b`, key],
    ['many pieces', `${'*a'.repeat(500)}b*`, key],
    ['question marks behind a star', `*${'?'.repeat(450)}iz*`, 'i'.repeat(903)],
    ['question marks before a star', `*iz${'?'.repeat(450)}*`, 'iz'.repeat(450)],
    ['nothing but question marks', `${'*?'.repeat(400)}*`, key],
    ['a piece that nearly matches everywhere', `*${'a'.repeat(500)}b*`, key],
    ['a piece that nearly matches from its end', `*b${'a'.repeat(500)}*`, key],
    ['a piece that matches itself', `*${'aab'.repeat(150)}c*`, 'aab'.repeat(340)],
  ]
  for (const [what, pattern, text] of HARMLESS) {
    it(`with ${what} takes steps in proportion to text and pattern`, () => {
      assert.ok(stepsOf(pattern, text).all <= linear(pattern, text), String(stepsOf(pattern, text).all))
    })
  }

  it('with question marks between other characters takes a step more for 32 of them', () => {
    for (const piece of [
      'a?'.repeat(250),
      `${'a?'.repeat(250)}b`,
      `${'abcdefgh?'.repeat(60)}z`,
      `a${'?'.repeat(800)}b`,
    ]) {
      const { all } = stepsOf(`*${piece}*`, key)
      assert.ok(
        all <= linear(piece, key) + 3 * key.length * Math.ceil(piece.length / 32),
        `${piece.slice(0, 9)}: ${all}`,
      )
    }
  })

  it('says at times how many steps it took', () => {
    const piece = `${'a?'.repeat(10_000)}b`
    const { all, atOnceMax } = stepsOf(`*${piece}*`, 'a'.repeat(32_000))
    assert.ok(all > 4 * STEPS_AT_ONCE)
    assert.ok(atOnceMax <= STEPS_AT_ONCE)
  })
})
