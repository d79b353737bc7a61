/**
 * The files of the page as browsers get them: the modules in `page/` and the libraries they import, without a bundle. A checkout serves its
 * sources without their types, a package the JavaScript built from them.
 *
 * P1 [one-address]  every file is below `/assets/<digest of all files>/`: browsers keep it forever, and a new release has new addresses
 * P2 [once]         files are read and stripped when the page is first asked for, compressed when a browser first takes them, and then kept:
 *                   about 0.5 MB
 * P3 [first-load]   `index.html` names every module that `main` and the section of its address need, so that none of them waits for another
 *                   one to be read; the other sections are loaded when the first one is shown
 */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { dirname, extname } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { treeFile } from '../tree.ts'

/** P2 */
export class PageFile {
  readonly contentType: string
  readonly plain: Buffer
  readonly etag: string
  readonly #compressed = new Map<Encoding, Promise<Buffer>>()

  constructor(path: string, source: string) {
    const contentType = TYPES[extname(path)]
    assert(contentType !== undefined)
    this.contentType = contentType
    this.plain = Buffer.from(source)
    this.etag = `"${hash('sha256', this.plain).slice(0, 16)}"`
  }

  compressed(encoding: Encoding): Promise<Buffer> {
    const bytes = this.#compressed.get(encoding) ?? COMPRESS[encoding](this.plain)
    this.#compressed.set(encoding, bytes)
    return bytes
  }
}

export type Encoding = 'br' | 'gzip'

export interface Page {
  /** @param path of the address that a browser shows */
  readonly indexAt: (path: string) => PageFile
  /** By path, `/assets/…`. */
  readonly assets: ReadonlyMap<string, PageFile>
}

/** Folders of `page/` that hold the pages of a section, by the first part of their addresses. */
const SECTIONS: Readonly<Record<string, string>> = {
  '': 'overview',
  logs: 'logs',
  traces: 'logs',
  objects: 'objects',
  streams: 'streams',
  audit: 'streams',
}

/** The one place that knows where the page is: sources in a checkout, JavaScript in a package. */
const DIRECTORY = treeFile('src/console/page/')

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ts': 'text/javascript; charset=utf-8',
}

/** The libraries of the page, by the names that its modules import. */
const LIBRARIES = ['preact', 'preact/hooks', 'htm', 'preact-iso/router', 'aws4fetch', '@tanstack/virtual-core']
/** uPlot has a minified build only as a script that makes a global variable. */
const UPLOT = { name: 'uplot', script: 'uplot/dist/uPlot.iife.min.js', style: 'uplot/dist/uPlot.min.css' }

/** Finds imports. Those in comments follow a brace, and are not found. */
const IMPORT =
  /((?:^|[\s;}])(?:import|export)\b[^'"`;()]*?from\s*|(?:^|[\s;}])import\s+|(?<=[\s(])import\()(["'])([^"']+)\2/g

/** Files by path. */
type Sources = Map<string, string>

export async function loadPage(): Promise<Page> {
  const sources: Sources = new Map([...(await ownSources()), ...(await librarySources())])
  const digest = hash('sha256', JSON.stringify([...sources])).slice(0, 16)
  const base = `/assets/${digest}/`
  const assets = new Map<string, PageFile>()
  for (const [path, source] of sources) if (path !== INDEX) assets.set(`${base}${path}`, new PageFile(path, source))
  const indexes = new Map(
    [...new Set(Object.values(SECTIONS))].map((section) => [
      section,
      new PageFile(INDEX, indexOf(sources, base, section)),
    ]),
  )
  const indexAt = (path: string): PageFile => indexes.get(SECTIONS[path.split('/')[1] ?? ''] ?? 'overview')!
  return { indexAt, assets }
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
      TYPES[extname(name)] === TYPES['.js'] ? linked(withoutComments(await withoutTypes(name, source)), path) : source,
    ] as const
  })
  return new Map(await Promise.all(reading))
}

async function withoutTypes(name: string, source: string): Promise<string> {
  if (!name.endsWith('.ts')) return source
  const { stripTypes } = await import('./strip-types.ts') // a package has no TypeScript, and never loads this
  return stripTypes(source)
}

/** Comments are a tenth of what browsers load. Lines keep their numbers. */
const withoutComments = (source: string): string =>
  source.replaceAll(/^[ \t]*\/\*\*[^]*?\*\/[ \t]*$/gm, (comment) => comment.replaceAll(/[^\n]+/g, ''))

async function librarySources(): Promise<Sources> {
  const sources: Sources = new Map()
  for (const name of LIBRARIES) await addLibrary(sources, new URL(import.meta.resolve(name)), pathOf(name))
  const read = (specifier: string): Promise<string> => readFile(new URL(import.meta.resolve(specifier)), 'utf8')
  // It names a locale to `Intl` as it is loaded. Browsers of the POSIX locale call theirs `en-US@posix`, which `Intl` refuses; its own default works.
  const script = (await read(UPLOT.script)).replace(/new Intl\.NumberFormat\([^)]*\)/, 'new Intl.NumberFormat()')
  sources.set(pathOf(UPLOT.name), `${script}\nexport default uPlot\n`)
  sources.set('library/uplot.css', await read(UPLOT.style))
  return sources
}

/** Adds a file of a library, and the files of it that this one imports. */
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
function indexOf(sources: Sources, base: string, section: string): string {
  const main = [...sources.keys()].find((path) => /^page\/main\.[tj]s$/.test(path))
  assert(main !== undefined)
  const shown = new RegExp(`^page/${section}/[a-z]+-page\\.[tj]s$`)
  const needed = new Set<string>([main, ...[...sources.keys()].filter((path) => shown.test(path))])
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

const COMPRESS: Readonly<Record<Encoding, (plain: Buffer) => Promise<Buffer>>> = {
  br: (plain) => brotlied(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
  gzip: (plain) => gzipped(plain, { level: 9 }),
}
