/**
 * The files of the page as browsers get them: the modules in `page/` and the libraries they import, without a bundle. A checkout serves its
 * sources without their types, a package the JavaScript built from them.
 *
 * P1 [one-address]  every file is below `/assets/<digest of all files>/`: browsers keep it forever, and a new release has new addresses
 * P2 [once]         files are read, stripped and compressed when the page is first asked for, in turns, and then kept: about 0.5 MB
 * P3 [first-load]   `index.html` names every module that `main` needs, so that none of them waits for another one to be read
 */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { dirname, extname } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

export interface PageFile {
  readonly contentType: string
  readonly plain: Buffer
  readonly gzip: Buffer
  readonly brotli: Buffer
  readonly etag: string
}

export interface Page {
  readonly index: PageFile
  /** By path, `/assets/…`. */
  readonly assets: ReadonlyMap<string, PageFile>
}

/** The one place that knows where the page is: sources in a checkout, JavaScript in a package. */
const DIRECTORY = new URL('page/', import.meta.url)

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ts': 'text/javascript; charset=utf-8',
}

/** Of the page, by the names that they are imported by. */
const LIBRARIES = ['preact', 'preact/hooks', 'htm', 'preact-iso/router', 'aws4fetch', '@tanstack/virtual-core']
/** It has a minified build only as a script that makes a global variable. */
const UPLOT = { name: 'uplot', script: 'uplot/dist/uPlot.iife.min.js', style: 'uplot/dist/uPlot.min.css' }

/** Those in comments stand behind a brace. */
const IMPORT =
  /((?:^|[\s;}])(?:import|export)\b[^'"`;()]*?from\s*|(?:^|[\s;}])import\s+|(?<=[\s(])import\()(["'])([^"']+)\2/g

/** Files by path. */
type Sources = Map<string, string>

export async function loadPage(): Promise<Page> {
  const sources: Sources = new Map([...(await ownSources()), ...(await librarySources())])
  const digest = hash('sha256', JSON.stringify([...sources])).slice(0, 16)
  const base = `/assets/${digest}/`
  const assets = new Map<string, PageFile>()
  for (const [path, source] of sources) {
    if (path !== INDEX) assets.set(`${base}${path}`, await compressed(path, source))
  }
  return { index: await compressed(INDEX, indexOf(sources, base)), assets }
}

const INDEX = 'page/index.html'

async function ownSources(): Promise<Sources> {
  const names = (await readdir(DIRECTORY, { recursive: true })).filter(
    (name) => extname(name) in TYPES && !name.endsWith('.d.ts'),
  )
  const reading = names.toSorted().map(async (name) => {
    const source = await readFile(new URL(name, DIRECTORY), 'utf8')
    const path = `page/${name}`
    return [
      path,
      TYPES[extname(name)] === TYPES['.js'] ? linked(await withoutTypes(name, source), path) : source,
    ] as const
  })
  return new Map(await Promise.all(reading))
}

async function withoutTypes(name: string, source: string): Promise<string> {
  if (!name.endsWith('.ts')) return source
  const { stripTypes } = await import('./strip-types.ts') // a package has no TypeScript, and never loads this
  return stripTypes(source)
}

async function librarySources(): Promise<Sources> {
  const sources: Sources = new Map()
  for (const name of LIBRARIES) await addLibrary(sources, new URL(import.meta.resolve(name)), pathOf(name))
  const read = (specifier: string): Promise<string> => readFile(new URL(import.meta.resolve(specifier)), 'utf8')
  sources.set(pathOf(UPLOT.name), `${await read(UPLOT.script)}\nexport default uPlot\n`)
  sources.set('library/uplot.css', await read(UPLOT.style))
  return sources
}

/** With the other files of the library that this one imports. */
async function addLibrary(sources: Sources, file: URL, path: string): Promise<void> {
  if (sources.has(path)) return
  const source = (await readFile(file, 'utf8'))
    .replace(/\n\/\/# sourceMappingURL=\S+\s*$/, '\n')
    .replaceAll('process.env.NODE_ENV', '"production"') // what bundlers do for it
  sources.set(path, linked(source, path))
  for (const [, , , name] of source.matchAll(IMPORT)) {
    if (name!.startsWith('.')) await addLibrary(sources, new URL(name!, file), `${dirname(path)}/${name!.slice(2)}`)
  }
}

const pathOf = (library: string): string =>
  library === UPLOT.name ? 'library/uplot.js' : `library/${library.replace('@', '').replaceAll('/', '-')}/index.js`

/** Names of packages become addresses: browsers look nothing up. */
function linked(source: string, from: string): string {
  const up = '../'.repeat(from.split('/').length - 1)
  return source.replaceAll(IMPORT, (all, before: string, quote: string, name: string) => {
    if (name.startsWith('.')) return all
    assert(LIBRARIES.includes(name) || name === UPLOT.name, `${from} imports ${name}, which is no library of the page`)
    return `${before}${quote}${up}${pathOf(name)}${quote}`
  })
}

/** P3 */
function indexOf(sources: Sources, base: string): string {
  const main = ['page/main.ts', 'page/main.js'].find((path) => sources.has(path))
  assert(main !== undefined)
  const needed = new Set<string>([main])
  for (const path of needed) {
    for (const [, before, , specifier] of sources.get(path)!.matchAll(IMPORT)) {
      const target = new URL(specifier!, `http://page/${path}`).pathname.slice(1)
      assert(sources.has(target), `${path} imports ${specifier}, which is not there`)
      if (!before!.endsWith('(')) needed.add(target)
    }
  }
  const links = [...needed].map((path) => `<link rel="modulepreload" href="${base}${path}">`).join('\n    ')
  return sources
    .get(INDEX)!
    .replaceAll('{assets}', base.slice(0, -1))
    .replace('{main}', `${base}${main}`)
    .replace('<!-- modules -->', links)
}

const gzipped = promisify(gzip)
const brotlied = promisify(brotliCompress)

async function compressed(path: string, source: string): Promise<PageFile> {
  const contentType = TYPES[extname(path)]
  assert(contentType !== undefined)
  const plain = Buffer.from(source)
  const [inGzip, inBrotli] = await Promise.all([
    gzipped(plain, { level: 9 }),
    brotlied(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
  ])
  return { contentType, plain, gzip: inGzip, brotli: inBrotli, etag: `"${hash('sha256', plain).slice(0, 16)}"` }
}
