/** Tables that name, for each row of a specification, the test that checks it. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { it } from 'node:test'
import { codeOf, root, tableOf } from './markdown.ts'

/** @param note each of its sections has one table: row, test file, name of the test */
export function testNamedTestsExist(note: string): void {
  const sections = Array.from(note.matchAll(/^## (.+)$/gm), ([, name]) => name!)
  for (const section of sections) {
    it(`"${section}" have each a test that is there, and are there once`, () => {
      const rows = tableOf(note, section)
      assert.ok(rows.length > 0)
      assert.equal(new Set(rows.map(([row]) => row)).size, rows.length)
      for (const [row, file, title] of rows) {
        const path = `${root}/${codeOf(file)}`
        assert.ok(existsSync(path), `${row}: ${file}`)
        const name = /^`` (.*) ``$/.exec(title ?? '')?.[1] ?? assert.fail(`${row}: ${title} is no name of a test`)
        assert.ok(readFileSync(path, 'utf8').includes(name), `${row}: no test of ${file} is called ${name}`)
      }
    })
  }
}
