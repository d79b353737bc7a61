/**
 * Builds `dist/`, which a package runs: below `node_modules` Node runs no TypeScript.
 *
 *   node scripts/build.ts
 *     --unchecked          takes types for right, as `npm run check` has found them: half the time
 *
 * Programs, threads and the client have a file each; what several of them share is in `shared/`. With a file for each module, a service takes a third more
 * processor time to start. Dependencies stay packages. The page of the console keeps its modules, as browsers load them by section (`src/console/page-files.ts`).
 * The compiler makes the page, and the declarations of the client.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const dist = `${root}dist`
const TSC = fileURLToPath(import.meta.resolve('typescript/package.json')).replace('package.json', 'bin/tsc')
const PROJECTS = ['tsconfig.build.json', 'src/console/page/tsconfig.build.json']
const READ_AT_RUN_TIME = ['proto/**/*.proto', 'src/console/page/**/*.{css,html,svg}']
const ENTRIES = [
  'src/start.js',
  'src/cli/{mq,trilog}.js',
  'src/client/{index,browser}.ts',
  'workers/*.ts',
  'src/tree.ts', // with users of all kinds: wherever it comes to lie, that is one folder below the root
]

const { values } = parseArgs({ options: { unchecked: { type: 'boolean' } } })
const flags = values.unchecked ? ['--noCheck'] : []
rmSync(dist, { recursive: true, force: true })
await build({
  absWorkingDir: root,
  entryPoints: globSync(ENTRIES, { cwd: root }),
  outbase: root,
  outdir: dist,
  chunkNames: 'shared/[hash]',
  bundle: true,
  splitting: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'es2023',
  logLevel: 'warning',
})
for (const project of PROJECTS) {
  const { status } = spawnSync(process.execPath, [TSC, '-p', root + project, ...flags], { stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}
for (const file of globSync(READ_AT_RUN_TIME, { cwd: root })) cpSync(root + file, `${dist}/${file}`)
