/**
 * Does the object store have what it acknowledged?
 *
 * V1  each object whose storing was acknowledged is there, with its bytes
 * V2  none whose deletion was acknowledged is
 */
import type { Send } from '../connected.ts'
import { Problems } from '../verification.ts'
import type { Verification } from '../workload.ts'
import { refusalKind } from './answers.ts'
import type { Ledger } from './ledger.ts'
import type { NumberedObjects } from './objects.ts'
import { assertSuccess } from './requests.ts'
import type { Requests } from './requests.ts'

const CONNECTIONS = 16

/** @param count objects below this number were sent */
export async function verifyObjects(
  requests: Requests,
  objects: NumberedObjects,
  count: number,
  ledger: Ledger,
): Promise<Verification> {
  const wrong = new Problems()
  const undead = new Problems()
  let [stored, found, deleted, next] = [0, 0, 0, 0]
  const check = (): Promise<void> =>
    requests.connected(async (send) => {
      while (next < count) {
        const object = next++
        const key = objects.key(object)
        switch (ledger.fateOf(object)) {
          case 'stored': {
            stored++
            const problem = await difference(send, requests, key, objects.pieces(object))
            if (problem === null) found++
            else wrong.add(`${key} ${problem}`)
            break
          }
          case 'deleted': {
            deleted++
            const response = await send(requests.get(key))
            if (response.status === 200) undead.add(`${key} is there`)
            else if (response.status !== 404) assertSuccess(response, `reading ${key}`)
            break
          }
          case 'unknown':
        }
      }
    })
  await Promise.all(Array.from({ length: Math.min(CONNECTIONS, count) }, check))
  const checks = [
    wrong.check('stored', `${found} of ${stored} there, as sent`),
    ...(deleted === 0 ? [] : [undead.check('deleted', `none of ${deleted} is there`)]),
  ]
  return { ok: checks.every((check) => check.ok), checks }
}

/** What is wrong with an object; null: nothing. Several pieces are read one by one. */
async function difference(
  send: Send,
  requests: Requests,
  key: string,
  pieces: readonly Buffer[],
): Promise<string | null> {
  let from = 0
  for (const piece of pieces) {
    const to = from + piece.byteLength
    const response = await send(pieces.length === 1 ? requests.get(key) : requests.getRange(key, from, to))
    if (response.status === 404) return 'is missing'
    if (response.status >= 300) return `is answered with ${response.status} ${refusalKind(response)}`
    if (!response.body.equals(piece)) return `has other bytes from ${from} on`
    from = to
  }
  return null
}
