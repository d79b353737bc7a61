/**
 * Uploads under way. A file that is larger than a part goes in parts, a few at a time, so that it can be paused and continued where it was.
 *
 * U1 [whole-or-not]  an upload that is cancelled or fails leaves no object, and its parts are given up: as soon as the store answers, if it is away
 * U2 [few]           at most PARTS_AT_ONCE bodies are on their way for each file, and one file after the other
 * U3 [too-late]      an upload that the store is completing is not stopped any more: it would be unknown whether the object is there
 * U4 [left]          a page that goes away has the store abort what it has begun, by requests that outlive the page
 */
import { useEffect, useState } from 'preact/hooks'
import { RETRY_MS } from '../loading.ts'
import { Refusal, asRefusal, refusalOf } from '../request.ts'
import type { NamedFile } from './dropped.ts'
import { abortAddress, abortUpload, prepared, s3, textIn } from './s3.ts'
import type { S3Request } from './s3.ts'

const PART_BYTES = 8 * 1024 * 1024
const PARTS_AT_ONCE = 3
/** S3 takes no more parts of one object. */
const PARTS_MAX = 10_000
/** Tries of one body; a store that is away is back within half a minute, or the visitor tries again. */
const TRIES = 15

export type UploadState = 'waiting' | 'sending' | 'paused' | 'done' | 'failed' | 'cancelled'

let uploadsMade = 0

export class Upload {
  readonly id = (uploadsMade += 1)
  readonly bucket: string
  readonly key: string
  readonly file: File
  state: UploadState = 'waiting'
  /** Why it failed, or why a body is sent again. */
  problem: Refusal | null = null
  readonly #partBytes: number
  /** Bytes of each part that have left. */
  readonly #sent = new Map<number, number>()
  readonly #etags = new Map<number, string>()
  #uploadId: string | null = null
  /** U4 */
  #abortAddress: string | null = null
  #isEnding = false
  #isGivingUp = false
  #stop = new AbortController()

  constructor(bucket: string, key: string, file: File) {
    this.bucket = bucket
    this.key = key
    this.file = file
    this.#partBytes = Math.max(PART_BYTES, Math.ceil(file.size / PARTS_MAX))
  }

  get sentBytes(): number {
    return Math.min(
      this.file.size,
      [...this.#sent.values()].reduce((sum, each) => sum + each, 0),
    )
  }

  get isActive(): boolean {
    return this.state === 'waiting' || this.state === 'sending' || this.state === 'paused'
  }

  /** U3 */
  get mayStop(): boolean {
    return this.isActive && !this.#isEnding
  }

  /** Whether something is left behind if the tab is closed now. */
  get isNeeded(): boolean {
    return this.isActive || this.#isGivingUp
  }

  /** Ends when it is done, paused, cancelled or failed. */
  async run(): Promise<void> {
    this.#stop = new AbortController()
    this.state = 'sending'
    changed()
    try {
      if (this.file.size <= PART_BYTES) await this.#putWhole()
      else await this.#putParts()
      this.state = 'done'
    } catch (error) {
      if (this.state === 'sending') {
        this.state = 'failed'
        this.problem = asRefusal(error)
        this.#stop.abort()
      }
      if (!this.isActive) void this.#giveUp()
    }
    this.#isEnding = false
    changed()
  }

  pause(): void {
    if (!this.mayStop) return
    this.state = 'paused'
    this.problem = null
    this.#stop.abort()
    changed()
  }

  /** Continues, or begins again after a failure. */
  resume(): void {
    this.state = 'waiting'
    this.problem = null
    for (const number of this.#sent.keys()) if (!this.#etags.has(number)) this.#sent.delete(number)
    changed()
    void runNext()
  }

  cancel(): void {
    if (!this.mayStop) return
    this.state = 'cancelled'
    this.problem = null
    this.#stop.abort()
    changed()
    void this.#giveUp()
  }

  /** U1 */
  async #giveUp(): Promise<void> {
    const uploadId = this.#uploadId
    if (uploadId === null) return
    this.#forgetParts()
    this.#isGivingUp = true
    const { bucket, key } = this
    await patiently(() => abortUpload(bucket, key, uploadId), Infinity).catch(() => {}) // the store gives it up in time
    this.#isGivingUp = false
    this.#abortAddress = null
  }

  #forgetParts(): void {
    this.#uploadId = null
    this.#sent.clear()
    this.#etags.clear()
  }

  /** U4. A browser may show the page again. */
  leave(): void {
    const address = this.#abortAddress
    if (address === null || this.#isEnding) return
    this.#abortAddress = null
    void fetch(address, { method: 'DELETE', keepalive: true, credentials: 'omit' }).catch(() => {}) // the store gives it up in time
    if (!this.isActive) return
    this.state = 'failed'
    this.problem = new Refusal(0, 'left', 'The page was left while this was sent.')
    this.#stop.abort()
    this.#forgetParts()
  }

  async #putWhole(): Promise<void> {
    const headers: Record<string, string> = this.file.type === '' ? {} : { 'content-type': this.file.type }
    await this.#send(0, { method: 'PUT', bucket: this.bucket, key: this.key, headers, body: this.file })
  }

  async #putParts(): Promise<void> {
    const { bucket, key, file } = this
    const headers: Record<string, string> = file.type === '' ? {} : { 'content-type': file.type }
    if (this.#uploadId === null) {
      const create = (): Promise<Response> => s3({ method: 'POST', bucket, key, query: { uploads: '' }, headers })
      const answer = await patiently(create, TRIES, this.#stop.signal) // it is waited for in any case: without its id nothing can be given up
      this.#uploadId = textIn(new DOMParser().parseFromString(await answer.text(), 'application/xml'), 'UploadId')
      this.#abortAddress = await abortAddress(bucket, key, this.#uploadId)
    }
    this.#stop.signal.throwIfAborted()
    const uploadId = this.#uploadId
    const count = Math.ceil(file.size / this.#partBytes)
    const missing = Array.from({ length: count }, (_, at) => at + 1).filter((number) => !this.#etags.has(number))
    const sendParts = async (): Promise<void> => {
      for (let number = missing.shift(); number !== undefined; number = missing.shift()) {
        const body = file.slice((number - 1) * this.#partBytes, number * this.#partBytes)
        const query = { partNumber: String(number), uploadId }
        this.#etags.set(number, await this.#send(number, { method: 'PUT', bucket, key, query, body }))
      }
    }
    await Promise.all(Array.from({ length: PARTS_AT_ONCE }, sendParts)) // U2
    const parts = Array.from(
      { length: count },
      (_, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${this.#etags.get(at + 1)}</ETag></Part>`,
    )
    const body = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`
    this.#stop.signal.throwIfAborted()
    this.#isEnding = true // U3
    changed()
    await patiently(() => s3({ method: 'POST', bucket, key, query: { uploadId }, body }), TRIES)
    this.#uploadId = null
    this.#abortAddress = null
  }

  /** @returns the ETag */
  #send(number: number, request: S3Request): Promise<string> {
    const { signal } = this.#stop
    const send = (): Promise<string> =>
      sendWithProgress(request, signal, (bytes) => {
        this.#sent.set(number, bytes)
        changed()
      })
    const told = (problem: Refusal | null): void => {
      if (signal.aborted) return
      this.problem = problem
      changed()
    }
    return patiently(send, TRIES, signal, told)
  }
}

/**
 * Repeats a request as long as it may succeed in a moment.
 *
 * @param told why it is tried again; null: it has succeeded
 */
async function patiently<Value>(
  ask: () => Promise<Value>,
  tries: number,
  signal: AbortSignal = new AbortController().signal,
  told: (problem: Refusal | null) => void = () => {},
): Promise<Value> {
  for (let left = tries - 1; ; left--) {
    try {
      const value = await ask()
      told(null)
      return value
    } catch (error) {
      signal.throwIfAborted()
      const problem = asRefusal(error)
      if (left <= 0 || !(problem.mayPass || problem.status === 500)) throw error
      told(problem)
    }
    await new Promise((resolve) => {
      setTimeout(resolve, RETRY_MS)
      signal.addEventListener('abort', resolve, { once: true })
    })
    signal.throwIfAborted()
  }
}

/** The only way to learn how much of a body has left. */
async function sendWithProgress(
  request: S3Request,
  signal: AbortSignal,
  onSent: (bytes: number) => void,
): Promise<string> {
  const { path, headers } = await prepared(request)
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const asked = new XMLHttpRequest()
    asked.open(request.method, path)
    headers.forEach((value, name) => asked.setRequestHeader(name, value))
    asked.upload.addEventListener('progress', ({ loaded }) => onSent(loaded))
    asked.addEventListener('load', () => {
      if (asked.status < 300) return resolve(asked.getResponseHeader('etag') ?? '')
      reject(refusalOf(asked.status, { get: (name: string) => asked.getResponseHeader(name) }, asked.responseText))
    })
    asked.addEventListener('error', () => reject(new Refusal(0, 'unreachable', 'The connection broke off.')))
    asked.addEventListener('abort', () => reject(signal.reason as Error))
    signal.addEventListener('abort', () => asked.abort(), { once: true })
    asked.send(request.body)
  })
}

let uploads: readonly Upload[] = []
const listeners = new Set<() => void>()
let isRunning = false

/** Progress comes often: the page is drawn at most once a frame. */
let isDue = false
function changed(): void {
  if (isDue) return
  isDue = true
  requestAnimationFrame(() => {
    isDue = false
    for (const listener of listeners) listener()
  })
}

async function runNext(): Promise<void> {
  if (isRunning) return
  isRunning = true
  for (let next = waiting(); next !== undefined; next = waiting()) await next.run()
  isRunning = false
}

const waiting = (): Upload | undefined => uploads.find(({ state }) => state === 'waiting')

/** @param prefix that the names of the files go behind */
export function startUploads(bucket: string, prefix: string, files: readonly NamedFile[]): void {
  const added = files.map(({ name, file }) => new Upload(bucket, `${prefix}${name}`, file))
  uploads = [...uploads, ...added]
  changed()
  void runNext()
}

export function forgetEnded(): void {
  uploads = uploads.filter(({ isNeeded }) => isNeeded)
  changed()
}

addEventListener('beforeunload', (event) => {
  if (uploads.some(({ isNeeded }) => isNeeded)) event.preventDefault()
})

addEventListener('pagehide', () => {
  for (const each of uploads) each.leave()
})

export function useUploads(): readonly Upload[] {
  const [, renew] = useState(0)
  useEffect(() => {
    const listener = (): void => renew((count) => count + 1)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, [])
  return uploads
}
