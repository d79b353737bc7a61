/** A checkout of its own, in which packages are made while other tests use the real one. */
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../support/directories.ts'
import { run } from './program.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const LEFT_OUT = new Set(['.git', 'coverage', 'data', 'dist', 'node_modules'])
/** What npm says when no registry answers. */
const OFFLINE = /\b(ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENOTCACHED|ENETUNREACH|ERR_SOCKET_TIMEOUT)\b/

/** With the dependencies that the tests run with. */
export function copiedCheckout(): string {
  const checkout = join(temporaryDirectory(), 'checkout')
  mkdirSync(checkout)
  for (const name of readdirSync(root)) {
    if (!LEFT_OUT.has(name)) cpSync(join(root, name), join(checkout, name), { recursive: true })
  }
  linkDependencies(checkout)
  return checkout
}

export const linkDependencies = (directory: string): void =>
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'))

/** @param node that npm and what it starts run with; absent: that of the tests */
export const npmEnvironment = (node = process.execPath): NodeJS.ProcessEnv => ({
  PATH: `${join(node, '..')}${delimiter}${process.env['PATH']}`,
  npm_config_prefer_offline: 'true',
  npm_config_audit: 'false',
  npm_config_fund: 'false',
  npm_config_update_notifier: 'false',
})

/** @returns null, or why the registry cannot be reached */
export async function npmInstall(
  directory: string,
  packages: readonly string[],
  node?: string,
): Promise<string | null> {
  mkdirSync(directory, { recursive: true })
  if (!existsSync(`${directory}/package.json`)) writeFileSync(`${directory}/package.json`, '{ "type": "module" }')
  const env = npmEnvironment(node)
  const { code, stderr } = await run({ command: 'npm', args: ['install', ...packages], cwd: directory, env })
  if (code === 0) return null
  const [offline] = OFFLINE.exec(stderr) ?? []
  assert.ok(offline !== undefined, stderr)
  return `no registry answers npm: ${offline}`
}
