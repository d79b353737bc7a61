import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DEVELOPER_PAGES, PAGES, document } from './markdown.ts'

/** Longer text is easier to read as a paragraph below the table. */
const WORDS_MAX = 25
/** The README is an overview: longer texts have pages of their own. */
const README_LINES_MAX = 200

const wordsOf = (cell: string): number => cell.split(/\s+/).filter((word) => /\w/.test(word)).length

describe('the tables', () => {
  for (const page of [...PAGES, ...DEVELOPER_PAGES, 'ARCHITECTURE.md', 'CONTRIBUTING.md']) {
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
