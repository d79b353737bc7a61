/** The life of a digest lane: digests of many bodies at a time, of bytes that stand in the arena, until stopped. */
import { receiveMessageOnPort } from 'node:worker_threads'
import type { MessagePort } from 'node:worker_threads'
import { crc32 } from 'node:zlib'
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

/** Returns what answers the requests that wait in the ring. */
export function digestsOf(ring: SpscRing, shared: SharedArrayBuffer): (post: (answer: DigestAnswer) => void) => void {
  const arena = Buffer.from(shared)
  const bodies = new Map<number, BodyDigests>()
  return (post) => {
    for (let at = ring.next(); at >= 0; at = ring.next()) {
      const request = readRequest(ring.bytes, at)
      ring.release()
      const answer = answerTo(request, bodies, arena)
      if (answer !== null) post(answer)
    }
  }
}

function answerTo(request: DigestRequest, bodies: Map<number, BodyDigests>, arena: Buffer): DigestAnswer | null {
  const { body } = request
  if (request.kind === 'begin') {
    bodies.set(body, new BodyDigests(request.plan))
    return null
  }
  if (request.kind === 'update') {
    const bytes = arena.subarray(request.offset, request.offset + request.bytes)
    bodies.get(body)!.update(bytes)
    return { kind: 'updated', body, payloadCrc: crc32(bytes, request.crc) }
  }
  const digests = bodies.get(body)
  bodies.delete(body)
  return request.kind === 'finish' ? { kind: 'finished', body, digest: digests!.finish() } : null
}

function heardStop(port: MessagePort): boolean {
  for (let received = receiveMessageOnPort(port); received; received = receiveMessageOnPort(port)) {
    if (isStop(received.message)) return true
  }
  return false
}
