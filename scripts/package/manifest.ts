/**
 * The manifest of the package that `npm pack` makes: there `trilog/client` is what was built, and it runs on older Node than the services do.
 * In the checkout it is the source, so that nothing has to be built to use it.
 *
 *   node scripts/package/manifest.ts packed      before it is packed
 *   node scripts/package/manifest.ts restored    afterwards, or when packing failed
 */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

const manifest = fileURLToPath(new URL('../../package.json', import.meta.url))
const kept = fileURLToPath(new URL('../../node_modules/.cache/trilog/package.json', import.meta.url))

const built = (entry: string): object => ({
  types: `./dist/src/client/${entry}.d.ts`,
  default: `./dist/src/client/${entry}.js`,
})

if (existsSync(kept)) renameSync(kept, manifest) // also of a run that failed half-way
if (process.argv[2] === 'packed') {
  const {
    name,
    version,
    exports,
    engines,
    scripts: _,
    devDependencies: __,
    ...rest
  } = JSON.parse(readFileSync(manifest, 'utf8')) as Record<string, unknown> // of our own file
  assert.deepEqual(Object.keys(exports as object), ['./client', './client/browser'])
  mkdirSync(dirname(kept), { recursive: true })
  copyFileSync(manifest, kept)
  const packed = {
    name,
    version,
    ...rest,
    exports: {
      './client': { browser: built('browser'), default: built('index') },
      './client/browser': built('browser'),
    },
    engines: { ...(engines as object), node: '>=20' },
  }
  writeFileSync(manifest, `${JSON.stringify(packed, null, 2)}\n`)
}
