import assert from 'node:assert/strict'
import { it } from 'node:test'
import { fold, isAscii, wordsOf } from '../../../src/logstore/search/words.ts'

it('words are runs of letters, marks, numbers and connector punctuation', () => {
  const words = wordsOf('GET /api/v1/orders?id=42 user_id: "Größe" e\u0301t\u00e9')
  assert.equal(words.join(' '), 'get api v1 orders id 42 user_id größe e\u0301t\u00e9')
  assert.deepEqual(wordsOf(' \0\n-.,;'), [])
})

it('characters of scripts without spaces are words by themselves', () => {
  assert.deepEqual(wordsOf('系统error日志'), ['系', '统', 'error', '日', '志'])
  assert.deepEqual(wordsOf('한국어 слово'), ['한국어', 'слово'])
})

it('folding keeps the length of every character, is done once, and brings nothing into ASCII (W2)', () => {
  for (let codePoint = 0; codePoint <= 0x10ffff; codePoint++) {
    const character = String.fromCodePoint(codePoint)
    const folded = fold(character)
    assert.equal(folded.length, character.length, codePoint.toString(16))
    assert.equal(fold(folded), folded, codePoint.toString(16))
    if (codePoint >= 128) assert(!isAscii(folded), codePoint.toString(16))
  }
  assert.equal(fold('ΟΔΟΣ'), fold('οδος'))
})
