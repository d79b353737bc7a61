/** What a run needs on the server before it is measured: its bucket, and objects to read. */
import type { Send } from '../connected.ts'
import { elementText, elementTexts, refusalKind } from './answers.ts'
import type { LoadObjects } from './objects.ts'
import type { Preloaded } from './preloaded.ts'
import { assertSuccess } from './requests.ts'
import type { Requests } from './requests.ts'

const PAGE_KEYS = 1000
const CONNECTIONS = 16
const SAY_EVERY_OBJECTS = 100_000

/** @throws ConnectionError, RefusedError */
export function createBucket(requests: Requests): Promise<void> {
  return requests.connected(async (send) => {
    const response = await send(requests.createBucket())
    const isThere = response.status === 409 && refusalKind(response) === 'BucketAlreadyOwnedByYou'
    if (!isThere) assertSuccess(response, 'the creation of the bucket')
  })
}

/**
 * Puts those of the objects that are not there.
 *
 * @throws ConnectionError, RefusedError
 */
export async function preload(
  requests: Requests,
  { objects, count }: Preloaded,
  say: (line: string) => void,
): Promise<void> {
  const isThere = await requests.connected((send) => existing(send, requests, objects, count))
  const missing = isThere.reduce((sum, there) => sum + 1 - there, 0)
  let next = 0
  let stored = 0
  const put = (): Promise<void> =>
    requests.connected(async (send) => {
      for (;;) {
        const object = isThere.indexOf(0, next)
        if (object < 0) return
        next = object + 1
        const key = objects.key(object)
        assertSuccess(await send(requests.put(key, objects.bytes(object))), `storing ${key}`)
        isThere[object] = 1
        if (++stored % SAY_EVERY_OBJECTS === 0) say(`stored ${stored} of ${missing} objects beforehand`)
      }
    })
  await Promise.all(Array.from({ length: Math.min(CONNECTIONS, missing) }, put))
}

/** 1 for each of the first `count` objects that is there. */
async function existing(send: Send, requests: Requests, objects: LoadObjects, count: number): Promise<Uint8Array> {
  const isThere = new Uint8Array(count)
  for (let token: string | null = null, isMore = true; isMore;) {
    const response = await send(requests.list(objects.prefix, PAGE_KEYS, token))
    assertSuccess(response, 'listing the bucket')
    for (const key of elementTexts(response.body, 'Key')) isThere[objects.numberOf(key) ?? count] = 1 // or behind its end, which is nowhere
    token = elementText(response.body, 'NextContinuationToken')
    isMore = token !== null
  }
  return isThere
}
