/**
 * A browser that comes with npm alone: it starts on a machine that has nothing but Node.
 *
 * B1  it is unpacked once, into a directory that is there whole or not at all, however many processes ask for it
 * B2  its libraries and fonts are those of its package, so that pages look the same everywhere; without any font it dies
 */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import chromium, { inflate } from '@sparticuz/chromium'
import { chromium as playwright } from 'playwright-core'
import type { Browser } from 'playwright-core'
import { LIMIT_MS } from './waiting.ts'

const CACHE = fileURLToPath(new URL('../../node_modules/.cache/trilog', import.meta.url))
const LIBRARIES = fileURLToPath(new URL('../bin/al2023.tar.br', import.meta.resolve('@sparticuz/chromium')))

/** B2: the package's own list of fonts names directories of the place that the package was made for. */
const fontsIn = (directory: string): string =>
  `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">` +
  `<fontconfig><dir>${directory}/fonts</dir><cachedir>${directory}/font-cache</cachedir></fontconfig>`

/** B1 */
async function unpacked(): Promise<string> {
  const directory = join(CACHE, 'chromium-with-fonts')
  if (existsSync(directory)) return directory
  mkdirSync(CACHE, { recursive: true })
  const unpacking = mkdtempSync(`${directory}-`)
  const { TMPDIR = tmpdir() } = process.env
  process.env['TMPDIR'] = unpacking // where the package unpacks to
  try {
    await chromium.executablePath()
    await inflate(LIBRARIES)
    writeFileSync(join(unpacking, 'fonts/fonts.conf'), fontsIn(directory))
  } finally {
    process.env['TMPDIR'] = TMPDIR
  }
  try {
    renameSync(unpacking, directory)
  } catch {
    rmSync(unpacking, { recursive: true }) // another process was first
  }
  return directory
}

/** With its defences on: what the package calls its own arguments turns them off. */
export async function startBrowser(more: readonly string[] = []): Promise<Browser> {
  const directory = await unpacked()
  return playwright.launch({
    executablePath: join(directory, 'chromium'),
    timeout: LIMIT_MS,
    args: ['--headless=shell', '--no-sandbox', '--font-render-hinting=none', '--disable-gpu', ...more],
    env: {
      ...process.env,
      LD_LIBRARY_PATH: join(directory, 'al2023/lib'),
      FONTCONFIG_PATH: join(directory, 'fonts'),
    },
  })
}
