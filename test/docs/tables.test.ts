import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PAGES, document } from './markdown.ts'

/** More is a paragraph, which is read better below the table. */
const WORDS_MAX = 25

const wordsOf = (cell: string): number => cell.split(/\s+/).filter((word) => /\w/.test(word)).length

describe('the tables', () => {
  for (const page of [...PAGES, 'ARCHITECTURE.md']) {
    it(`of ${page} have at most ${WORDS_MAX} words in a cell`, () => {
      const cells = Array.from(document(page).matchAll(/^\|(.*)\|$/gm), ([, row]) => row!.split('|')).flat()
      assert.deepEqual(
        cells.filter((cell) => wordsOf(cell) > WORDS_MAX),
        [],
      )
    })
  }
})
