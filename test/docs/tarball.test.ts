/** The files of the self-contained tarball besides the program. */
import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { it } from 'node:test'
import { COPIED } from '../../scripts/tarball/copied.ts'
import { document, root } from './markdown.ts'

const isCopied = (path: string): boolean => COPIED.some((each) => path === each || path.startsWith(`${each}/`))

it('the links of its Markdown lead to files that are in it', () => {
  const pages = globSync('{*.md,docs/**/*.md,deploy/**/*.md}', { cwd: root }).filter(isCopied)
  assert(pages.includes('README.md') && pages.includes('docs/notes/cluster.md'))
  const astray = pages.flatMap((page) =>
    Array.from(document(page).matchAll(/\]\((?!https?:|#)([^)#]*)[^)]*\)/g), ([, path]) => join(dirname(page), path!))
      .filter((path) => !isCopied(path) || globSync(path, { cwd: root }).length === 0)
      .map((path) => `${page}: ${path}`),
  )
  assert.deepEqual(astray, [])
})
