import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NOTES, PAGES, document } from './markdown.ts'

/** More is a paragraph, which is read better below the table. */
const WORDS_MAX = 25
/** It is an overview: what is longer has a page of its own. */
const README_LINES_MAX = 200

const wordsOf = (cell: string): number => cell.split(/\s+/).filter((word) => /\w/.test(word)).length

describe('the tables', () => {
  for (const page of [...PAGES, ...NOTES, 'ARCHITECTURE.md', 'CONTRIBUTING.md']) {
    it(`of ${page} have at most ${WORDS_MAX} words in a cell`, () => {
      const cells = Array.from(document(page).matchAll(/^\|(.*)\|$/gm), ([, row]) => row!.split('|')).flat()
      assert.deepEqual(
        cells.filter((cell) => wordsOf(cell) > WORDS_MAX),
        [],
      )
    })
  }
})

it(`the README has at most ${README_LINES_MAX} lines`, () => {
  assert.ok(document('README.md').trimEnd().split('\n').length <= README_LINES_MAX)
})
