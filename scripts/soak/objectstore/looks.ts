/** Ways to look at what stands under a key, each of which must show one of its versions, whole. */
import assert from 'node:assert/strict'
import type { Random } from '../../../bench/load/random.ts'
import type { ObjectReply } from '../../../test/support/objectstore.ts'
import type { Client } from './client.ts'
import type { ExpectedObject, KeyLedger, Version } from './key-ledger.ts'

const META = 'x-obj-meta-'
const GONE = ['NoSuchKey'] as const

type Seen = readonly Version[]

/** Everything of it but its tags. Null: no answer. */
export async function lookWhole(client: Client, ledger: KeyLedger): Promise<Seen | null> {
  const from = ledger.look()
  const reply = await client.ask('GET', ledger.target, { expected: GONE })
  return reply && noteWholeSeen(ledger, from, reply)
}

/** The whole object and its tags, which tell versions apart as long as no actor changes the key. Null: no answer. */
export async function lookWholeWithTags(client: Client, ledger: KeyLedger): Promise<Seen | null> {
  const seen = await lookWhole(client, ledger)
  if (seen === null || seen[0]!.object === null) return seen
  const tagged = await lookTags(client, ledger)
  return tagged && seen.filter((version) => tagged.includes(version))
}

function noteWholeSeen(ledger: KeyLedger, from: Version, reply: ObjectReply): Seen {
  return ledger.noteSeen(from, shownBy(reply), (object, version) => {
    if (!isShown(reply, object, version)) return false
    if (object !== null) {
      assert.equal(reply.status, 200)
      assert(reply.bytes.equals(object.body.bytes), `${ledger.name}: the bytes are not those of ${object.etag}`)
    }
    return true
  })
}

export async function lookHead(client: Client, ledger: KeyLedger): Promise<void> {
  const from = ledger.look()
  const reply = await client.ask('HEAD', ledger.target, { expected: GONE })
  if (reply === null) return
  ledger.noteSeen(from, shownBy(reply), (object, version) => {
    const isIt = isShown(reply, object, version)
    if (isIt && object) assert.equal(reply.header('content-length'), String(object.body.size))
    return isIt
  })
}

/** Reads a range of the object, chosen by the length that it may have. */
export async function lookRange(client: Client, ledger: KeyLedger, random: Random): Promise<void> {
  const from = ledger.look()
  const size = ledger.candidates(from).at(-1)!.object?.body.size ?? 0
  const begin = random.between(0, Math.max(0, size - 1))
  const end = begin + random.between(0, 400_000)
  const reply = await client.ask('GET', ledger.target, {
    headers: { range: `bytes=${begin}-${end}` },
    expected: [...GONE, 'InvalidRange'],
  })
  if (reply === null) return
  ledger.noteSeen(from, shownBy(reply), (object, version) => {
    if (reply.status === 416) return object !== null && object.body.size <= begin
    if (!isShown(reply, object, version)) return false
    if (object === null || object.body.size === 0) return true
    const to = Math.min(end + 1, object.body.size)
    assert.equal(reply.status, 206)
    assert.equal(reply.header('content-range'), `bytes ${begin}-${to - 1}/${object.body.size}`)
    const isRight = reply.bytes.equals(object.body.slice(begin, to))
    assert(isRight, `${ledger.name}: the bytes from ${begin} to ${to} are not those of ${object.etag}`)
    return true
  })
}

export async function lookTags(client: Client, ledger: KeyLedger): Promise<Seen | null> {
  const from = ledger.look()
  const reply = await client.ask('GET', `${ledger.target}?tagging`, { expected: GONE })
  if (reply === null) return null
  const tags = reply.status === 404 ? null : tagsOf(reply)
  return ledger.noteSeen(from, `tags ${JSON.stringify(tags)}`, (object) =>
    object === null || tags === null ? object === tags : sameTexts(object.tags, tags),
  )
}

function tagsOf(reply: ObjectReply): Record<string, string> {
  const tags = reply.document('Tagging').all('TagSet/Tag')
  return Object.fromEntries(tags.map((tag) => [tag.text('Key')!, tag.text('Value')!]))
}

/** Whether the headers of a reply are those of this version. */
function isShown(reply: ObjectReply, object: ExpectedObject | null, { commitSequence }: Version): boolean {
  if (reply.status === 404 || object === null) return reply.status === 404 && object === null
  const { etag, contentType, metadata, tags } = object
  return (
    reply.header('etag') === `"${etag}"` &&
    reply.header('content-type') === contentType &&
    reply.header('x-obj-tagging-count') === (countOf(tags) || null) &&
    (commitSequence === null || reply.header('x-obj-commit-sequence') === String(commitSequence)) &&
    sameTexts(metadataOf(reply), metadata)
  )
}

function metadataOf(reply: ObjectReply): Record<string, string> {
  const own = [...reply.headers].filter(([name]) => name.startsWith(META))
  return Object.fromEntries(own.map(([name, value]) => [name.slice(META.length), value]))
}

const countOf = (tags: Readonly<Record<string, string>>): string => String(Object.keys(tags).length || '')

function sameTexts(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name])
}

function shownBy(reply: ObjectReply): string {
  if (reply.status >= 400) return `${reply.status} ${reply.header('x-obj-error-code')}`
  const sequence = reply.header('x-obj-commit-sequence')
  return `${reply.header('etag')}, sequence ${sequence}, ${JSON.stringify([reply.header('content-type'), metadataOf(reply)])}, ${reply.header('x-obj-tagging-count')} tags`
}

// Listings

export interface ListedKey {
  readonly key: string
  readonly etag: string
  readonly size: number
}

export interface ListedPage {
  readonly keys: readonly ListedKey[]
  readonly next: string | null
}

export function listedPage(reply: ObjectReply): ListedPage {
  const document = reply.document('ListBucketResult')
  const keys = document.all('Contents').map((each) => ({
    key: each.text('Key')!,
    etag: each.text('ETag')!,
    size: Number(each.text('Size')),
  }))
  assert.equal(document.text('KeyCount'), String(keys.length + document.all('CommonPrefixes').length))
  return { keys, next: document.text('NextContinuationToken') }
}

const isListedAs = (listed: ListedKey | undefined, object: ExpectedObject | null): boolean =>
  listed === undefined || object === null
    ? listed === undefined && object === null
    : listed.etag === `"${object.etag}"` && listed.size === object.body.size

/** What a listing shows of these keys must be what may be there. @param froms where it began to look */
export function noteListedSeen(
  froms: ReadonlyMap<KeyLedger, Version>,
  listed: ReadonlyMap<string, ListedKey>,
): Map<KeyLedger, Seen> {
  const seen = new Map<KeyLedger, Seen>()
  for (const [ledger, from] of froms) {
    const shown = listed.get(ledger.key)
    seen.set(
      ledger,
      ledger.noteSeen(from, `listed as ${JSON.stringify(shown)}`, (object) => isListedAs(shown, object)),
    )
  }
  return seen
}
