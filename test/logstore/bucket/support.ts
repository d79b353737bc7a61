/** Bundles for a bucket: made here, copied by an SDK as any tool would copy them, and read by a log store. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { CreateBucketCommand, DeleteObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { freePort } from '../../../scripts/compare/server.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { killAtEnd } from '../../support/left-behind.ts'
import type { Environment } from '../../support/process.ts'
import { TRACES } from '../../support/stored-segments.ts'
import type { QueryResponseBody } from '../../support/stored-segments.ts'
import type { LogStoreServer, Reply } from '../../support/logstore.ts'
import { eventually } from '../../support/waiting.ts'

export const ACCESS_KEY_ID = 'trilog-test'
export const SECRET_ACCESS_KEY = 'trilog-test-secret'
export const CREDENTIALS = { AWS_ACCESS_KEY_ID: ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY: SECRET_ACCESS_KEY }
export const BUCKET = 'bundles'
const PUTS_AT_ONCE = 16

/** Settings of a log store whose queries read this bucket. */
export const readsBucketAt = (endpoint: string, more: Environment = {}): Environment => ({
  LOGSTORE_QUERY_STORE: 's3',
  LOGSTORE_QUERY_S3_BUCKET: BUCKET,
  LOGSTORE_QUERY_S3_REGION: 'us-east-1',
  LOGSTORE_QUERY_S3_ENDPOINT: endpoint,
  LOGSTORE_QUERY_S3_FORCE_PATH_STYLE: '1',
  LOGSTORE_QUERY_S3_REFRESH_SECONDS: '1',
  AWS_EC2_METADATA_DISABLED: 'true',
  ...CREDENTIALS,
  ...more,
})

/** The bucket, as a tool that copies into it sees it. */
export class BucketCopy {
  readonly endpoint: string
  readonly name: string
  readonly #client: S3Client

  static async create(endpoint: string, name = BUCKET): Promise<BucketCopy> {
    const copy = new BucketCopy(endpoint, name)
    await copy.#client.send(new CreateBucketCommand({ Bucket: name }))
    return copy
  }

  private constructor(endpoint: string, name: string) {
    this.endpoint = endpoint
    this.name = name
    const credentials = { accessKeyId: ACCESS_KEY_ID, secretAccessKey: SECRET_ACCESS_KEY }
    this.#client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true, credentials })
  }

  async put(key: string, body: Buffer): Promise<void> {
    await this.#client.send(new PutObjectCommand({ Bucket: this.name, Key: key, Body: body }))
  }

  async remove(key: string): Promise<void> {
    await this.#client.send(new DeleteObjectCommand({ Bucket: this.name, Key: key }))
  }

  /** Copies what stands below a directory, as `aws s3 sync` does. */
  sync(directory: string, prefix = ''): Promise<void> {
    return copyFiles(directory, (path, body) => this.put(`${prefix}${path}`, body))
  }

  close(): void {
    this.#client.destroy()
  }
}

/** Copies the files below a directory, in an order that does not depend on bundles. */
export async function copyFiles(
  directory: string,
  put: (path: string, body: Buffer) => Promise<unknown>,
): Promise<void> {
  const paths = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => `${parentPath}/${name}`)
  const putNext = async (): Promise<void> => {
    for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
      const body = contentOf(path)
      if (body !== null) await put(path.slice(directory.length + 1), body)
    }
  }
  await Promise.all(Array.from({ length: PUTS_AT_ONCE }, putNext))
}

/** Null: a store that runs has renamed or removed it since it was listed. */
function contentOf(path: string): Buffer | null {
  try {
    return readFileSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null // what `node:fs` throws
    throw error
  }
}

/** Questions of users. Each has the same answer from the bundles on disk and from those in the bucket. */
export const QUESTIONS: readonly object[] = [
  { dataset: 'orders' },
  { dataset: 'payments', page: { limit: 3 } },
  { dataset: 'orders', filter: { trace_id: TRACES[1] }, page: { limit: 2 } },
  { dataset: 'orders', filter: { start_time_unix_nano: 1004, end_time_unix_nano: 1009 } },
  { dataset: 'orders', filter: { record_id: `logstore_${'0'.repeat(32)}` } },
  { dataset: 'nothing' },
]

/** All pages of an answer. */
export async function pagesOf(
  question: object,
  ask: (body: object) => QueryResponseBody | Promise<QueryResponseBody>,
): Promise<readonly QueryResponseBody[]> {
  const pages: QueryResponseBody[] = []
  for (let cursor: string | null = null; ;) {
    const page: object = { ...(question as { page?: object }).page, cursor } // what QUESTIONS have
    const answer = await ask({ ...question, page })
    pages.push(answer)
    cursor = answer.page.next_cursor
    if (cursor === null) return pages
  }
}

/** A long deadline, as a busy machine answers late. */
export const PATIENT = { deadline_ms: 60_000 }

export const askServer =
  (server: LogStoreServer) =>
  async (body: object): Promise<QueryResponseBody> =>
    (await queryOf(server, body)).ok() as QueryResponseBody // compared with the engine's

export const queryOf = (server: LogStoreServer, body: object = { dataset: 'orders' }): Promise<Reply> =>
  server.request('/v1/query', JSON.stringify({ ...PATIENT, ...body }))

/** Value of a metric at /metrics. */
export async function metricOf(server: LogStoreServer, name: string): Promise<number> {
  const { text } = await server.request('/metrics', null)
  const line = new RegExp(`^logstore_${name} (\\S+)$`, 'm').exec(text)
  assert(line !== null, `there is no metric ${name}`)
  return Number(line[1])
}

export const untilBundles = (server: LogStoreServer, bundles: number): Promise<void> =>
  eventually(async () => (await metricOf(server, 'query_s3_bundles')) === bundles)

export interface OtherServer {
  readonly url: string
  stop(): void
}

const PEERS = ['/usr/local/bin', ...(process.env['PATH'] ?? '').split(':')]

/** Where an S3 server that is not ours is installed; null: nowhere. */
export const findPeer = (name: 'minio' | 'versitygw'): string | null =>
  PEERS.map((directory) => `${directory}/${name}`).find((path) => existsSync(path)) ?? null

/** Starts an S3 server that is not ours, and waits until it takes a bucket. */
export async function startPeer(name: 'minio' | 'versitygw', path: string): Promise<OtherServer> {
  const [port, consolePort] = [await freePort(), await freePort()]
  const directory = `${temporaryDirectory()}/files`
  mkdirSync(directory)
  const address = `127.0.0.1:${port}`
  const args =
    name === 'minio'
      ? ['server', '--quiet', '--address', address, '--console-address', `127.0.0.1:${consolePort}`, directory]
      : [
          '--port',
          address,
          '--quiet',
          '--region',
          'us-east-1',
          '--access',
          ACCESS_KEY_ID,
          '--secret',
          SECRET_ACCESS_KEY,
          'posix',
          directory,
        ]
  const env = {
    ...process.env,
    MINIO_ROOT_USER: ACCESS_KEY_ID,
    MINIO_ROOT_PASSWORD: SECRET_ACCESS_KEY,
    MINIO_BROWSER: 'off',
  }
  const child = killAtEnd(spawn(path, args, { env, stdio: 'ignore' }))
  const stop = (): void => void child.kill('SIGKILL')
  child.unref()
  const url = `http://${address}`
  await eventually(async () => {
    assert.equal(child.exitCode, null, `${name} ended`)
    return (await fetch(url).catch(() => null)) !== null
  })
  return { url, stop }
}
