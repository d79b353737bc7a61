/** The archive of `npm run dist`, made of a small directory. test/package tests the unpacked content of the real one. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { it } from 'node:test'
import { launcher, pack } from '../../../scripts/tarball/pack.ts'
import { temporaryDirectory } from '../../support/directories.ts'

const NAME = 'trilog-1.2.3-linux-x64'

it('holds one directory of the name of the release, owned by root, with commands that run by a link to them', () => {
  const work = temporaryDirectory()
  const file = `${work}/out.tar.gz`
  mkdirSync(`${work}/${NAME}/bin`, { recursive: true })
  mkdirSync(`${work}/${NAME}/lib/trilog/bin`, { recursive: true })
  writeFileSync(`${work}/${NAME}/bin/mq`, launcher('mq'))
  chmodSync(`${work}/${NAME}/bin/mq`, 0o755)
  copyFileSync('/bin/echo', `${work}/${NAME}/lib/node`) // it prints its arguments
  pack(work, NAME, file)

  const listed = execFileSync('tar', ['--list', '--verbose', '--numeric-owner', `--file=${file}`], { encoding: 'utf8' })
  const lines = listed.trim().split('\n')
  assert.deepEqual(
    lines.filter((line) => !line.includes(' 0/0 ') || !line.includes(` ${NAME}/`)),
    [],
  )

  // The steps of docs/install.md.
  const place = `${work}/opt`
  mkdirSync(place)
  execFileSync('tar', ['-xzf', file, '-C', place, '--strip-components=1'])
  assert.equal(statSync(`${place}/bin/mq`).mode & 0o777, 0o755)
  symlinkSync(`${place}/bin/mq`, `${work}/mq`)
  const said = execFileSync(`${work}/mq`, ['cli', 'a b'], { encoding: 'utf8' })
  assert.equal(said, `--v8-pool-size=0 ${place}/bin/../lib/trilog/bin/mq.js cli a b\n`)
})
