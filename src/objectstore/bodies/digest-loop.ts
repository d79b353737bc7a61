/**
 * The loop of a digest lane: computes digests of many bodies at a time, whose bytes are in the arena, until it is stopped.
 *
 * L1  requests of one body are handled in their order. Updates of different bodies that wait at the same time are computed together, at most one of each
 *     body: a body that has sent much waits for others to catch up
 */
import { receiveMessageOnPort } from 'node:worker_threads'
import type { MessagePort } from 'node:worker_threads'
import { crc32 } from '../../../native-free-codecs/crc32.ts'
import { MD5_LANES } from '../../../native-free-codecs/md5.ts'
import { isStop } from '../../pipeline/lane-task.ts'
import { SpscRing } from '../../pipeline/spsc-ring.ts'
import { loadChecksums } from './checksum-algorithms.ts'
import { BodyDigests } from './incremental-digests.ts'
import { readRequest } from './digest-messages.ts'
import type { DigestAnswer, DigestLaneData, DigestRequest } from './digest-messages.ts'

export async function runDigestLane(port: MessagePort, data: DigestLaneData): Promise<void> {
  const ring = SpscRing.attach(data.ring)
  const answerAll = digestsOf(ring, data.arena)
  while (!heardStop(port)) {
    ring.waitForMessage()
    const post = (answer: DigestAnswer): void => port.postMessage(answer)
    for (let loading = answerAll(post); loading !== null; loading = answerAll(post)) await loading
  }
}

type Post = (answer: DigestAnswer) => void
type UpdateRequest = Extract<DigestRequest, { readonly kind: 'update' }>

/**
 * Returns a function that answers the requests in the ring, and those that come meanwhile. It returns null when all are answered. It returns a promise
 * when a body needs a checksum that is not loaded yet: when that has settled, the caller calls it again.
 */
export function digestsOf(
  ring: SpscRing,
  shared: SharedArrayBuffer,
  load = loadChecksums,
): (post: Post) => Promise<void> | null {
  const arena = Buffer.from(shared)
  const bodies = new Map<number, BodyDigests>()
  const bytesOf = ({ offset, bytes }: UpdateRequest): Buffer => arena.subarray(offset, offset + bytes)
  let waiting: DigestRequest[] = []

  const take = (): Promise<void> | null => {
    for (let at = ring.next(); at >= 0; at = ring.next()) {
      const request = readRequest(ring.bytes, at)
      waiting.push(request)
      ring.release()
      const loading = request.kind === 'begin' ? load(request.plan.checksums) : null
      if (loading !== null) return loading
    }
    return null
  }

  /** L1. Handles one update of each of at most MD5_LANES bodies, and the other requests for whose bodies no update waits before them. */
  const round = (post: Post): void => {
    const updated = new Set<number>()
    const updates: UpdateRequest[] = []
    const later: DigestRequest[] = []
    for (const request of waiting) {
      const { kind, body } = request
      if (updated.has(body)) later.push(request)
      else if (kind === 'update') {
        updated.add(body)
        if (updates.length < MD5_LANES) updates.push(request)
        else later.push(request)
      } else if (kind === 'begin') bodies.set(body, new BodyDigests(request.plan))
      else {
        if (kind === 'finish') post({ kind: 'finished', body, digest: bodies.get(body)!.finish() })
        bodies.delete(body)
      }
    }
    waiting = later
    BodyDigests.update(updates.map((each) => ({ digests: bodies.get(each.body)!, bytes: bytesOf(each) })))
    for (const each of updates) {
      post({ kind: 'updated', body: each.body, payloadCrc: crc32(bytesOf(each), each.crc) })
    }
  }

  return (post) => {
    for (;;) {
      const loading = take()
      if (loading !== null || waiting.length === 0) return loading
      round(post)
    }
  }
}

function heardStop(port: MessagePort): boolean {
  for (let received = receiveMessageOnPort(port); received; received = receiveMessageOnPort(port)) {
    if (isStop(received.message)) return true
  }
  return false
}
