/**
 * Imported before anything in TypeScript, in every thread: keeps each source without its types in `node_modules/.cache/trilog`, so that
 * stripping is paid once, not by every thread at every start, which took a third of a start and 10 MiB in each thread.
 *
 * A cached file is the source with spaces where types were, as Node itself would run it, and behind it the digest of what it was made
 * from: one of another source, or half of one, is made again. What V8 compiles is kept beside it, by Node: a tenth of the CPU of a start.
 * Where the directory cannot be written, nothing is kept.
 *
 * Exact relative imports are resolved here, also those of the packages: the files of a library of small modules took longer to find than to load.
 */
import { hash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { enableCompileCache, registerHooks } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { threadId } from 'node:worker_threads'
import { stripTypes } from './strip-types.js'

const root = new URL('../', import.meta.url).href
const cache = new URL('node_modules/.cache/trilog/', root).href

// V8 does not count what runs in functions that it takes from a cache.
if (!process.env['NODE_V8_COVERAGE']) enableCompileCache(fileURLToPath(new URL('compiled', cache)))

registerHooks({
  resolve(specifier, context, nextResolve) {
    const { parentURL } = context
    const isExact = specifier.startsWith('.') && (specifier.endsWith('.ts') || specifier.endsWith('.mjs'))
    if (!isExact || !parentURL?.startsWith(root)) return nextResolve(specifier, context)
    return { url: new URL(specifier, parentURL).href, format: 'module', shortCircuit: true }
  },
  load(url, context, nextLoad) {
    const isOurs = url.startsWith(root) && url.endsWith('.ts') && !url.includes('/node_modules/', root.length - 1)
    if (!isOurs) return nextLoad(url, context)
    return { format: 'module', source: withoutTypes(url), shortCircuit: true }
  },
})

/**
 * @param {string} url of one of our sources
 * @returns {string}
 */
function withoutTypes(url) {
  const source = readFileSync(fileURLToPath(url), 'utf8')
  const mark = `\n//# ${hash('sha256', `${process.versions.amaro} ${source}`)}\n`
  const cached = new URL(`${url.slice(root.length)}.js`, cache)
  const known = readOrNull(cached)
  if (known?.endsWith(mark)) return known
  const stripped = `${stripTypes(source)}${mark}`
  keep(cached, stripped)
  return stripped
}

/** @param {URL} file */
function readOrNull(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

/**
 * @param {URL} file
 * @param {string} text
 */
function keep(file, text) {
  const path = fileURLToPath(file)
  const written = `${path}.${process.pid}.${threadId}`
  try {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(written, text)
    renameSync(written, path)
  } catch {
    // an installation that is not ours to write to: what is stripped now is stripped again next time
  }
}
