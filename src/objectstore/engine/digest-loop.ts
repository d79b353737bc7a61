/**
 * The life of a digest lane: digests of many bodies at a time, of bytes that stand in the arena, until stopped.
 *
 * L1  requests of one body are worked on in their order; updates of different bodies that wait at the same time are done together
 */
import { receiveMessageOnPort } from 'node:worker_threads'
import type { MessagePort } from 'node:worker_threads'
import { crc32 } from '../../../native-free-codecs/crc32.ts'
import { MD5_LANES } from '../../../native-free-codecs/md5.ts'
import { isStop } from '../../pipeline/lane-task.ts'
import { SpscRing } from '../../pipeline/spsc-ring.ts'
import { BodyDigests } from '../body/body-digests.ts'
import { readRequest } from './digest-messages.ts'
import type { DigestAnswer, DigestLaneData, DigestRequest } from './digest-messages.ts'

export function runDigestLane(port: MessagePort, data: DigestLaneData): void {
  const ring = SpscRing.attach(data.ring)
  const answerAll = digestsOf(ring, data.arena)
  while (!heardStop(port)) {
    ring.waitForMessage()
    answerAll((answer) => port.postMessage(answer))
  }
}

type Post = (answer: DigestAnswer) => void
type UpdateRequest = Extract<DigestRequest, { readonly kind: 'update' }>

/** Returns what answers the requests that wait in the ring. */
export function digestsOf(ring: SpscRing, shared: SharedArrayBuffer): (post: Post) => void {
  const arena = Buffer.from(shared)
  const bodies = new Map<number, BodyDigests>()
  const bytesOf = ({ offset, bytes }: UpdateRequest): Buffer => arena.subarray(offset, offset + bytes)
  let updates: UpdateRequest[] = []

  const updateAll = (post: Post): void => {
    BodyDigests.update(updates.map((each) => ({ digests: bodies.get(each.body)!, bytes: bytesOf(each) })))
    for (const each of updates) {
      post({ kind: 'updated', body: each.body, payloadCrc: crc32(bytesOf(each), each.crc) })
    }
    updates = []
  }

  return (post) => {
    for (let at = ring.next(); at >= 0; at = ring.next()) {
      const request = readRequest(ring.bytes, at)
      ring.release()
      const { kind, body } = request
      if (updates.length === MD5_LANES || updates.some((each) => each.body === body)) updateAll(post) // L1
      if (kind === 'update') updates.push(request)
      else if (kind === 'begin') bodies.set(body, new BodyDigests(request.plan))
      else {
        if (kind === 'finish') post({ kind: 'finished', body, digest: bodies.get(body)!.finish() })
        bodies.delete(body)
      }
    }
    updateAll(post)
  }
}

function heardStop(port: MessagePort): boolean {
  for (let received = receiveMessageOnPort(port); received; received = receiveMessageOnPort(port)) {
    if (isStop(received.message)) return true
  }
  return false
}
