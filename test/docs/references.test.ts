import assert from 'node:assert/strict'
import { existsSync, globSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { DEVELOPER_PAGES, PAGES, document, root } from './markdown.ts'

const DOCUMENTS = [...PAGES, ...DEVELOPER_PAGES, 'ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md']
const FOLDERS = ['src', 'workers', 'native-free-codecs', 'proto', 'bench', 'scripts', 'test']

/** What links may name behind `#`, as GitHub makes it of headings. */
const anchorsOf = (text: string): ReadonlySet<string> =>
  new Set(
    Array.from(text.matchAll(/^#+ (.*)$/gm), ([, heading]) =>
      heading!
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )

/** The labels in heads of files, by the name of the file; of files without any there is none. */
const INVARIANTS = new Map<string, Set<string>>()
for (const path of globSync('{src,workers,native-free-codecs}/**/*.ts', { cwd: root })) {
  const labels = document(path).match(/(?<=^ \* +)[A-Z]\d+(?= +\S)/gm) ?? []
  if (labels.length === 0) continue
  const name = basename(path, '.ts')
  INVARIANTS.set(name, new Set([...(INVARIANTS.get(name) ?? []), ...labels]))
}

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

    it(`exists, of the numbered invariants of ${name}`, () => {
      const cited = Array.from(text.matchAll(/([a-z][a-z0-9-]*)(?:\.ts)?`? ([A-Z]\d+)\b/g), ([, file, label]) => [
        file!,
        label!,
      ])
      const isUnknown = ([file, label]: readonly string[]): boolean => INVARIANTS.get(file!)?.has(label!) === false
      assert.deepEqual(cited.filter(isUnknown), [])
    })

    it(`exists, of the links of ${name}`, () => {
      const links = Array.from(text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g), ([, file, anchor]) => ({
        file: file === '' ? name : join(dirname(name), file!),
        anchor,
      }))
      const leadsNowhere = ({ file, anchor }: { file: string; anchor: string | undefined }): boolean =>
        !existsSync(`${root}/${file}`) || (anchor !== undefined && !anchorsOf(document(file)).has(anchor))
      assert.deepEqual(links.filter(leadsNowhere), [])
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
