/**
 * Builds the client library, with all that a broker in the same process needs, to JavaScript and declarations: below `node_modules` Node
 * runs no TypeScript.
 *
 *   node scripts/package/build.ts [DIRECTORY]    default: dist
 *
 * The compiler rewrites imports. What it does not: the files of threads, which are named by URLs, and imports in declarations.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const directory = resolve(process.argv[2] ?? `${root}/dist`)

rmSync(directory, { recursive: true, force: true })
const tsc = createRequire(import.meta.url)
  .resolve('typescript/package.json')
  .replace('package.json', 'bin/tsc')
const options = ['-p', `${root}/tsconfig.client.json`, '--outDir', directory]
const { status } = spawnSync(process.execPath, [tsc, ...options], { stdio: 'inherit' })
assert.equal(status, 0, 'the compiler failed')

let threads = 0
for (const file of globSync(`${directory}/**/*.js`)) {
  rewrite(file, /(new URL\('[./]*\/workers\/[\w-]+)\.ts(', import\.meta\.url\))/g, (_, before, after) => {
    threads += 1
    return `${before}.js${after}`
  })
}
assert.equal(threads, globSync(`${directory}/workers/*.js`).length, 'each thread is started in one place')
for (const file of globSync(`${directory}/**/*.d.ts`)) {
  rewrite(file, /(from '|import\(")(\.[^'"]*)\.ts(['"])/g, (_, before, path, after) => `${before}${path}.js${after}`)
}
// threads import this first, to strip types: here there are none
writeFileSync(`${directory}/src/stripped-types.js`, '')

function rewrite(file: string, pattern: RegExp, replaced: (match: string, ...groups: string[]) => string): void {
  const text = readFileSync(file, 'utf8')
  const rewritten = text.replace(pattern, replaced)
  if (rewritten !== text) writeFileSync(file, rewritten)
}
