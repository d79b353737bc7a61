/** Gathers a small body in memory, for endpoints that parse it as a whole. Large ones are streamed by their service instead. */
import type { Exchange, TimeOut } from './exchange.ts'

export interface BodyReaders {
  /** @param bytes the caller's own */
  whole(bytes: Buffer): void
  tooLarge(): void
  timedOut(why: TimeOut): void
}

export function gatherBody(exchange: Exchange, limitBytes: number, readers: BodyReaders): void {
  const pieces: Buffer[] = []
  exchange.readBody(limitBytes, {
    chunk(bytes, isLast) {
      if (bytes.byteLength > 0) pieces.push(Buffer.from(bytes))
      if (isLast) readers.whole(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))
    },
    tooLarge: () => readers.tooLarge(),
    timedOut: (why) => readers.timedOut(why),
  })
}
