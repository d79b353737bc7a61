import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { describe, it } from 'node:test'
import { areDisjoint } from '../../src/config/replica-directories.ts'
import { temporaryDirectory } from '../support/directories.ts'

describe('directories of a log', () => {
  const root = temporaryDirectory()
  mkdirSync(`${root}/real/inner`, { recursive: true })
  symlinkSync(`${root}/real`, `${root}/link`)
  symlinkSync(`${root}/real/inner`, `${root}/inner`)

  for (const [what, one, other] of [
    ['the same', 'real', 'real'],
    ['the same by a symbolic link', 'real', 'link'],
    ['the same below a symbolic link, and do not exist yet', 'real/a/b', 'link/a/b'],
    ['one inside the other', 'real', 'real/bundles'],
    ['one inside the other by a symbolic link', 'real', 'inner'],
    ['one inside the other, and do not exist yet', 'new', 'new/a/b'],
  ] as const)
    it(`that are ${what} are not apart, whichever comes first`, () => {
      assert(!areDisjoint([`${root}/${one}`, `${root}/${other}`]))
      assert(!areDisjoint([`${root}/else`, `${root}/${other}`, `${root}/${one}`]))
    })

  it('that only begin with the same name are apart, and none is created', () => {
    assert(areDisjoint(['real', 'realm', 'real-2', 'new'].map((name) => `${root}/${name}`)))
    assert.deepEqual(readdirSync(root).sort(), ['inner', 'link', 'real'])
  })
})
