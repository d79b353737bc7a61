/** An answer of known length, at the pace of its reader: the library buffers none of it. */
import assert from 'node:assert/strict'
import type { AnswerHost } from './answer-host.ts'
import type { AnswerSource } from './exchange.ts'
import { ANSWER_BYTES_PER_TURN } from './limits.ts'

/** @returns whether everything was handed over */
export function sendAsRead(host: AnswerHost, bytes: Uint8Array): boolean {
  const [, done] = host.response.tryEnd(bytes, bytes.byteLength)
  if (done) return true
  sendRest(host, bytes, 0, bytes.byteLength, () => {})
  host.hold(bytes.byteLength)
  return false
}

/** Asks for the pieces one by one: for the next when the connection has taken the one before. */
export async function sendFrom(host: AnswerHost, source: AnswerSource, lengthBytes: number): Promise<void> {
  let sentBytes = 0
  let turnBytes = 0
  try {
    while (sentBytes < lengthBytes) {
      const piece = await source.next()
      if (host.isGone) return source.close()
      assert(piece !== null && sentBytes + piece.byteLength <= lengthBytes, 'an answer is as long as it says')
      await sendPiece(host, piece, sentBytes, lengthBytes)
      if (host.isGone) return source.close()
      sentBytes += piece.byteLength
      turnBytes += piece.byteLength
      if (turnBytes < ANSWER_BYTES_PER_TURN || sentBytes === lengthBytes) continue
      turnBytes = 0
      await new Promise<void>((resolve) => host.later(resolve))
      if (host.isGone) return source.close()
    }
    source.close()
  } catch (error) {
    if (host.isGone) return
    if (sentBytes > 0) return host.response.close() // ends as aborted
    host.failed(error)
  }
}

/** Resolves when the piece was taken, or the client is gone. */
function sendPiece(
  host: AnswerHost,
  piece: Uint8Array,
  beganAtBytes: number,
  lengthBytes: number,
): Promise<void> | void {
  const { response } = host
  let ok = false
  let done = false
  response.cork(() => {
    if (beganAtBytes === 0) host.writeHead()
    ;[ok, done] = response.tryEnd(piece, lengthBytes)
  })
  if (done) return host.finished()
  if (ok) return
  return new Promise((resolve) => {
    // After some callbacks of the library, certainly this one, waiting microtasks do not run until something else happens.
    const settle = (): void => host.later(resolve)
    host.whenGone(settle)
    sendRest(host, piece, beganAtBytes, lengthBytes, settle)
  })
}

/** Sends the rest of a piece that the connection did not take at once. */
function sendRest(
  host: AnswerHost,
  piece: Uint8Array,
  beganAtBytes: number,
  lengthBytes: number,
  taken: () => void,
): void {
  const { response } = host
  let movedTo = beganAtBytes
  const moved = (): void => {
    const offset = response.getWriteOffset()
    if (offset > movedTo) host.moved(offset - movedTo)
    movedTo = offset
  }
  response.onWritable((offset) => {
    const [ok, done] = response.tryEnd(piece.subarray(offset - beganAtBytes), lengthBytes)
    if (ok) host.waitOver()
    else if (!done) moved()
    if (done) host.finished()
    if (ok || done) taken()
    return ok
  })
  // The library calls `onWritable` when a third of the connection's buffer is free, which may take a slow reader minutes. The sweep sees smaller progress.
  // It leaves the last byte to `onWritable`, before which the library stops its time-out: a source may take its time for the next piece.
  host.wait(() => {
    const offset = response.getWriteOffset()
    response.cork(() => response.tryEnd(piece.subarray(offset - beganAtBytes, -1), lengthBytes))
    moved()
  })
}
