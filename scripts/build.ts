/**
 * Builds `dist/`, which a package runs: below `node_modules` Node runs no TypeScript. The compiler makes JavaScript and declarations; files
 * that are read while the server runs are copied beside them.
 *
 *   node scripts/build.ts
 *     --unchecked          takes types for right, as `npm run check` has found them: a quarter of the time
 */
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const TSC = fileURLToPath(import.meta.resolve('typescript/package.json')).replace('package.json', 'bin/tsc')
const PROJECTS = ['tsconfig.build.json', 'src/console/page/tsconfig.build.json']
const READ_AT_RUN_TIME = ['proto/**/*.proto', 'src/console/page/**/*.{css,html,svg}']

const { values } = parseArgs({ options: { unchecked: { type: 'boolean' } } })
const flags = values.unchecked ? ['--noCheck'] : []
rmSync(`${root}dist`, { recursive: true, force: true })
for (const project of PROJECTS) {
  const { status } = spawnSync(process.execPath, [TSC, '-p', root + project, ...flags], { stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}
for (const file of globSync(READ_AT_RUN_TIME, { cwd: root })) cpSync(root + file, `${root}dist/${file}`)
