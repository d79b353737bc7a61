/** Runs every micro-benchmark in bench/, one after the other, so that none disturbs another. Options are passed on: `--smoke`. */
import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

for (const bench of globSync('bench/*.bench.ts', { cwd: root }).sort()) {
  console.log(`\n${bench}`)
  const { status } = spawnSync(process.execPath, [bench, ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' })
  if (status !== 0) {
    console.error(`${bench} failed`)
    process.exit(1)
  }
}
