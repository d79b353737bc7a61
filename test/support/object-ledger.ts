/**
 * Clients of an object store in a cluster, and what they were told: which objects are there, which are not, and how far counters have come.
 *
 * A client that is refused, or gets no answer, asks another node. A request without an answer may have had its effect or not, so its key is not used again.
 */
import assert from 'node:assert/strict'
import type { ObjectStoreServer } from './objectstore.ts'
import { abortAfter, timePasses } from './waiting.ts'

const ANSWER_MS = 3000
const PAUSE_MS = 20
/** Lengths of bodies: two are stored in a frame of their own, one in extents, and the last in extents as a part of an upload. */
const SIZES = [100, 3000, 300_000, 100_000]
const MULTIPART = 3
/** One in this many objects stays, all others are deleted again. So most of the log is garbage, and is cleaned meanwhile. */
const KEPT = 5

export class ObjectLedger {
  readonly problems: string[] = []
  /** Length by key. */
  readonly acknowledged = new Map<string, number>()
  /** Keys whose deletion was acknowledged. */
  readonly deleted = new Set<string>()
  /** Requests that were answered. */
  answered = 0
  /** Refusals by status. */
  readonly refused = new Map<number, number>()
  readonly #nodes: () => readonly ObjectStoreServer[]
  readonly #bucket: string
  #isOver = false
  #loops: Promise<unknown> = Promise.resolve()

  constructor(nodes: () => readonly ObjectStoreServer[], bucket: string) {
    this.#nodes = nodes
    this.#bucket = bucket
  }

  /** Starts clients that write, and one that counts up in an object and reads it, until `end`. */
  begin(writers: number): void {
    const loops = [this.#count(), ...Array.from({ length: writers }, (_, i) => this.#write(`writer-${i}`))]
    this.#loops = Promise.all(loops)
  }

  /** Resolves when every client has heard what became of its last request. */
  async end(): Promise<void> {
    this.#isOver = true
    await this.#loops
  }

  async #write(name: string): Promise<void> {
    for (let n = 0, at = 0; !this.#isOver; n += 1) {
      const key = `${name}/${n}`
      const length = SIZES[n % SIZES.length]!
      const isStored =
        n % SIZES.length === MULTIPART
          ? await this.#upload(at, key, length)
          : await this.#put(at, key, bodyOf(key, length))
      if (!isStored) {
        at += 1
        await timePasses(PAUSE_MS)
        continue
      }
      this.#note(() => this.acknowledged.set(key, length))
      if (n % KEPT === 0) continue
      this.acknowledged.delete(key) // unknown until the deletion is answered
      if ((await this.#ask(at, 'DELETE', `/${key}`))?.status === 204) this.#note(() => this.deleted.add(key))
    }
  }

  /** The number in an object only grows: a read never returns less than what the client was told before it asked. */
  async #count(): Promise<void> {
    let told = 0
    for (let n = 1, at = 0; !this.#isOver; n += 1) {
      if (await this.#put(at, 'counter', Buffer.from(String(n)))) this.#note(() => (told = n))
      else at += 1
      const reply = await this.#ask(at, 'GET', '/counter')
      const read = reply?.status === 200 ? Number(await reply.text().catch(() => '')) : null
      if (read === null || read === 0) at += 1
      else if (read < told) this.problems.push(`the counter was ${read} after ${told}`)
      else this.#note(() => (told = read))
      await timePasses(PAUSE_MS)
    }
  }

  async #put(at: number, key: string, body: Buffer): Promise<boolean> {
    return (await this.#ask(at, 'PUT', `/${key}`, body))?.status === 200
  }

  async #upload(at: number, key: string, length: number): Promise<boolean> {
    const begun = await this.#ask(at, 'POST', `/${key}?uploads`)
    const [, id] = /<UploadId>([^<]+)</.exec(begun?.status === 200 ? await begun.text().catch(() => '') : '') ?? []
    if (id === undefined) return false
    const part = await this.#ask(at, 'PUT', `/${key}?uploadId=${id}&partNumber=1`, bodyOf(key, length))
    if (part?.status !== 200) return false
    const listed = `<Part><PartNumber>1</PartNumber><ETag>${part.headers.get('etag')}</ETag></Part>`
    const body = Buffer.from(`<CompleteMultipartUpload>${listed}</CompleteMultipartUpload>`)
    return (await this.#ask(at, 'POST', `/${key}?uploadId=${id}`, body))?.status === 200
  }

  /** What is wrong with the objects on a node, which must lead; empty when they are as acknowledged. */
  async problemsOf(node: ObjectStoreServer): Promise<readonly string[]> {
    const problems: string[] = []
    for (const [key, length] of this.acknowledged) {
      const reply = await fetch(`${node.url}/${this.#bucket}/${key}`)
      const bytes = Buffer.from(await reply.arrayBuffer())
      if (reply.status !== 200 || !bytes.equals(bodyOf(key, length))) problems.push(`${key}: ${reply.status}`)
    }
    for (const key of this.deleted) {
      const { status } = await fetch(`${node.url}/${this.#bucket}/${key}`, { method: 'HEAD' })
      if (status !== 404) problems.push(`${key} was deleted: ${status}`)
    }
    const listed = await this.#list(node)
    for (const key of this.acknowledged.keys()) if (!listed.has(key)) problems.push(`${key} is not listed`)
    for (const key of this.deleted) if (listed.has(key)) problems.push(`${key} was deleted, and is listed`)
    return problems
  }

  async #list(node: ObjectStoreServer): Promise<ReadonlySet<string>> {
    const keys = new Set<string>()
    for (let after = ''; ;) {
      const query = `?list-type=2&start-after=${encodeURIComponent(after)}`
      const reply = await fetch(`${node.url}/${this.#bucket}${query}`)
      const text = await reply.text()
      assert.equal(reply.status, 200, text)
      const page = Array.from(text.matchAll(/<Key>([^<]+)</g), ([, key]) => key!)
      for (const key of page) keys.add(key)
      if (!text.includes('<IsTruncated>true<')) return keys
      after = page.at(-1)!
    }
  }

  #note(told: () => void): void {
    told()
    this.answered += 1
  }

  async #ask(at: number, method: string, target: string, body: Buffer | null = null): Promise<Response | null> {
    const nodes = this.#nodes()
    const url = `${nodes[at % nodes.length]!.url}/${this.#bucket}${target}`
    const reply = await fetch(url, { method, body, signal: abortAfter(ANSWER_MS) }).catch(() => null)
    if (reply !== null && reply.status >= 400) {
      this.refused.set(reply.status, (this.refused.get(reply.status) ?? 0) + 1)
      await reply.text().catch(() => {})
    }
    return reply
  }
}

/** Each key has a body of its own. */
const bodyOf = (key: string, length: number): Buffer => Buffer.alloc(length, `${key}\n`)
