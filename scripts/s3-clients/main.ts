/**
 * Clients of S3 that people have, unmodified, on the object store: started here, on a free port and a directory that is removed at the end,
 * once with its defaults and once with signatures checked. A client that is not installed is named and left out.
 *
 * Exits with 0 when everything that was there did what it should, 1 when something did not, 2 for bad usage.
 */
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { scratchDirectory } from '../compare/server.ts'
import { awsCli } from './aws-cli.ts'
import { awsSdk } from './aws-sdk.ts'
import { boto3 } from './boto3.ts'
import { MissingError } from './client.ts'
import type { Client, Result } from './client.ts'
import { rclone } from './rclone.ts'
import { s3cmd } from './s3cmd.ts'
import { startStore } from './server.ts'
import type { Store } from './server.ts'

interface Row {
  readonly client: string
  readonly store: string
  readonly results: readonly Result[]
}

const root = scratchDirectory(join(tmpdir(), 'trilog-s3-clients-'))

const clients: readonly Client[] = [awsCli, boto3, awsSdk(newDirectory('sdk')), rclone, s3cmd]
const asked = parse()
if (asked === null) {
  process.stderr.write(`usage: npm run s3-clients -- [--only ${clients.map(({ name }) => name).join(',')}]\n`)
  process.exit(2)
}

const stores = [
  await startStore(newDirectory('local'), { auth: 'local', hasListV1: false }),
  await startStore(newDirectory('sigv4'), { auth: 'sigv4', hasListV1: true }),
]
const rows: Row[] = []
const missing: string[] = []
for (const client of asked) await tryClient(client)
for (const { server } of stores) await server.stop()

console.log(`\n${table(rows)}`)
for (const name of missing) console.log(`left out: ${name}`)
process.exitCode = rows.some(({ results }) => results.length === 0 || results.some(isFailed)) ? 1 : 0

async function tryClient(client: Client): Promise<void> {
  let version: string
  try {
    version = client.version()
  } catch (error) {
    if (!(error instanceof MissingError)) throw error
    missing.push(`${client.name}, ${error.message}`)
    return
  }
  for (const store of stores) {
    if (client.needs === 'list-v1' && !store.hasListV1) continue
    rows.push({ client: `${client.name} ${version}`, store: store.name, results: await tryOn(store, client) })
  }
}

async function tryOn(store: Store, client: Client): Promise<Result[]> {
  console.log(`\n${client.name} on ${store.name}`)
  const directory = newDirectory(`${store.auth}-${client.name.replaceAll(/\W/g, '-')}`)
  const results: Result[] = []
  for await (const result of client.run({ ...store, directory })) {
    results.push(result)
    console.log(result.problem === null ? `  ok      ${result.check}` : `  FAILED  ${result.check}: ${result.problem}`)
  }
  return results
}

function table(all: readonly Row[]): string {
  const head = ['client', 'object store', 'checks', 'failed']
  const cells = all.map(({ client, store, results }) => [
    client,
    store,
    String(results.length),
    results
      .filter(isFailed)
      .map(({ check }) => check)
      .join('; ') || '-',
  ])
  const widths = head.map((_, column) => Math.max(...[head, ...cells].map((row) => row[column]!.length)))
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`
  return [line(head), rule, ...cells.map(line)].join('\n')
}

function isFailed({ problem }: Result): boolean {
  return problem !== null
}

function newDirectory(name: string): string {
  const directory = join(root, name)
  mkdirSync(directory)
  return directory
}

/** Null: bad usage. */
function parse(): readonly Client[] | null {
  try {
    const { only } = parseArgs({ options: { only: { type: 'string' } } }).values
    const names = only?.split(',') ?? clients.map(({ name }) => name)
    const chosen = clients.filter(({ name }) => names.includes(name))
    return chosen.length === names.length ? chosen : null
  } catch {
    return null
  }
}
