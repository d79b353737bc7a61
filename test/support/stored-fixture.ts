/**
 * A data directory as a release wrote it, kept as text: its files, and the answers of the service that runs on them.
 *
 * The files are one archive: u32 bytes of a JSON list of paths and sizes, the list, then the contents one after the other. It is compressed with
 * Brotli, and written in lines of Base64.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { BrokerServer } from './broker.ts'
import { LogStoreServer } from './logstore.ts'
import { ObjectStoreServer } from './objectstore.ts'
import type { RunningService } from './process.ts'

/** A request that changes nothing. */
export interface Look {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object
}

export interface SeenLook extends Look {
  readonly status: number
  /** The body of the answer, or its SHA-256 in hexadecimal digits when it is long. */
  readonly answer: string
}

export interface StoredFixture {
  /** Version of the release. */
  readonly made_by: string
  readonly files: readonly string[]
  readonly looks: readonly SeenLook[]
}

export const STORED_SERVICES = ['logstore', 'objectstore', 'broker'] as const
export type StoredService = (typeof STORED_SERVICES)[number]

/** Starts the service on a directory, with small segments. An upload expires after ten years, the longest time that can be set. */
export function startStored(service: StoredService, directory: string): Promise<RunningService> {
  switch (service) {
    case 'logstore':
      return LogStoreServer.start({ env: { LOGSTORE_DATA_DIR: directory, LOGSTORE_SEGMENT_BYTES: SEGMENT_BYTES } })
    case 'objectstore':
      return ObjectStoreServer.start({
        env: {
          OBJSTORE_DATA_DIR: directory,
          OBJSTORE_SEGMENT_BYTES: SEGMENT_BYTES,
          OBJSTORE_MULTIPART_TTL_HOURS: UPLOAD_HOURS,
        },
      })
    case 'broker':
      return BrokerServer.start({ dataDirectory: directory, flags: ['--segment-bytes', SEGMENT_BYTES] })
  }
}

export const FIXTURES = fileURLToPath(new URL('../fixtures/stored', import.meta.url))

const SEGMENT_BYTES = String(1 << 20)
const UPLOAD_HOURS = '87600'
const LINE_CHARACTERS = 120
const LONG_CHARACTERS = 3000
/** Files of the process that wrote the directory: they hold nothing that is stored. */
const LEFT_OUT = new Set(['LOCK'])

export const readFixture = (name: string): StoredFixture =>
  JSON.parse(readFileSync(`${FIXTURES}/${name}.json`, 'utf8')) as StoredFixture // as scripts/stored-fixtures.ts wrote it

export function packDirectory(directory: string): string[] {
  const paths = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && !LEFT_OUT.has(each.name))
    .map((each) => `${each.parentPath}/${each.name}`.slice(directory.length + 1))
    .sort()
  const contents = paths.map((path) => readFileSync(`${directory}/${path}`))
  const list = Buffer.from(JSON.stringify(paths.map((path, i) => [path, contents[i]!.byteLength])))
  const head = Buffer.alloc(4)
  head.writeUInt32LE(list.byteLength)
  const archive = Buffer.concat([head, list, ...contents])
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 }
  const text = brotliCompressSync(archive, { params }).toString('base64')
  return text.match(new RegExp(`.{1,${LINE_CHARACTERS}}`, 'g')) ?? []
}

export function unpackDirectory({ files }: Pick<StoredFixture, 'files'>, directory: string): void {
  const archive = brotliDecompressSync(Buffer.from(files.join(''), 'base64'))
  let at = 4 + archive.readUInt32LE(0)
  for (const [path, bytes] of JSON.parse(archive.toString('utf8', 4, at)) as [string, number][]) {
    mkdirSync(dirname(`${directory}/${path}`), { recursive: true })
    writeFileSync(`${directory}/${path}`, archive.subarray(at, at + bytes))
    at += bytes
  }
}

/**
 * @param url of the service
 * @param addedSince parts of the answer to leave out, as the release that made the fixture did not have them
 */
export async function see(url: string, look: Look, addedSince: readonly RegExp[] = []): Promise<SeenLook> {
  const { method, path, headers = {}, body } = look
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = addedSince.reduce((rest, added) => rest.replace(added, ''), await response.text())
  const isLong = text.length > LONG_CHARACTERS
  const answer = isLong ? createHash('sha256').update(text).digest('hex') : text
  return { ...look, status: response.status, answer }
}
