import assert from 'node:assert/strict'
import { existsSync, globSync } from 'node:fs'
import { describe, it } from 'node:test'
import { document, root } from './markdown.ts'

const DOCUMENTS = ['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'docs/connection.md', 'docs/console.md']
const FOLDERS = ['src', 'workers', 'native-free-codecs', 'proto', 'bench', 'scripts', 'test']

describe('what the documents point at', () => {
  for (const name of DOCUMENTS) {
    const text = document(name)

    it(`exists, of the files and folders of ${name}`, () => {
      const named = text.match(new RegExp(`(?<=\`)(${FOLDERS.join('|')})/[\\w./*-]*`, 'g')) ?? []
      assert.deepEqual(
        named.filter((path) => globSync(path, { cwd: root }).length === 0),
        [],
      )
    })

    it(`exists, of the links of ${name}`, () => {
      const targets = Array.from(text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g), ([, target]) => target!)
      assert.deepEqual(
        targets.filter((target) => !existsSync(`${root}/${target}`)),
        [],
      )
    })

    it(`exists, of the npm scripts of ${name}`, () => {
      const { scripts } = JSON.parse(document('package.json')) as { scripts: Record<string, string> }
      const named = Array.from(text.matchAll(/npm run (\S+?)[`\s]/g), ([, script]) => script!)
      assert.deepEqual(
        named.filter((script) => !(script in scripts)),
        [],
      )
    })
  }
})
