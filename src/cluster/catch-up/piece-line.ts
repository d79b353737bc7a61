/**
 * Transfers pieces of files between nodes, over a connection that begins as HTTP and is upgraded to this protocol. Node's HTTP client copies what it
 * receives; here the kernel writes it into the memory that the caller gives.
 *
 *   question  path=…&from=…&bytes=…\n
 *   answer    u32 kind, u32 length, so many bytes (the piece, or why there is none), u32 CRC-32 of them
 *
 * Y1  answers come in the order of the questions
 * Y2  the side that serves has one piece in memory, and reads the next one when the kernel has taken all of it
 * Y3  both sides rest after each step, so that other threads get the core
 */
import type { Duplex } from 'node:stream'
import { crc32 } from 'node:zlib'
import { messageOf } from '../../errors.ts'
import { STEP_BYTES, restingSteps, yieldCore } from '../../pipeline/niceness.ts'

/** Its name in HTTP's header `upgrade`. */
export const PIECE_PROTOCOL = 'trilog-pieces'

const KINDS = ['piece', 'gone', 'refused'] as const

export interface PieceAnswer {
  readonly kind: (typeof KINDS)[number]
  /** The piece, in the memory that was given for it, or why it is refused. */
  readonly bytes: Buffer
  /** The checksum is that of the bytes. */
  readonly isWhole: boolean
}

const HEADER_BYTES = 8
const CHECKSUM_BYTES = 4
const NOTHING = Buffer.alloc(0)
const QUESTION_LENGTH_MAX = 1000
const REASON_BYTES_MAX = 10_000

/**
 * Answers until the other side disconnects, or sends a question that is too long.
 *
 * @param give reads a piece, which is sent before the next one is read; null: the file is gone
 */
export async function servePieces(
  socket: Duplex,
  give: (question: URLSearchParams) => Promise<Buffer | null>,
): Promise<void> {
  try {
    for await (const question of questionsOf(socket)) {
      const [kind, bytes] = await give(new URLSearchParams(question)).then(
        (piece) => (piece === null ? (['gone', NOTHING] as const) : (['piece', piece] as const)),
        (error: unknown) => ['refused', Buffer.from(messageOf(error)).subarray(0, REASON_BYTES_MAX)] as const,
      )
      await send(socket, kind, bytes)
    }
  } catch {
    // The connection is broken, so no answer can be sent.
  }
  socket.destroy()
}

async function* questionsOf(socket: Duplex): AsyncGenerator<string, void, undefined> {
  let text = ''
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString('latin1') // a socket without an encoding
    const questions = text.split('\n')
    text = questions.pop()!
    yield* questions
    if (text.length > QUESTION_LENGTH_MAX) return
  }
}

/** Resolves when the kernel has taken all of it (Y2). */
function send(socket: Duplex, kind: PieceAnswer['kind'], bytes: Buffer): Promise<void> {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt32LE(KINDS.indexOf(kind), 0)
  header.writeUInt32LE(bytes.byteLength, 4)
  const checksum = Buffer.alloc(CHECKSUM_BYTES)
  return new Promise((resolve, reject) => {
    socket.cork() // the header goes with the first bytes
    socket.write(header)
    let sum = 0
    for (const step of restingSteps(bytes)) {
      socket.write(step)
      socket.uncork()
      sum = crc32(step, sum)
    }
    checksum.writeUInt32LE(sum)
    socket.write(checksum, (error) => (error ? reject(error) : resolve()))
    socket.uncork()
  })
}

interface Waiting {
  readonly into: Buffer
  readonly answered: PromiseWithResolvers<PieceAnswer>
}

type Part = 'header' | 'body' | 'checksum'

/** Parses answers as they arrive. */
export class PieceAnswers {
  readonly #waiting: Waiting[] = []
  readonly #header = Buffer.alloc(HEADER_BYTES)
  readonly #checksum = Buffer.alloc(CHECKSUM_BYTES)
  /** Part of the oldest answer that is arriving, the memory for it, and how many of its bytes have come. */
  #part: Part = 'header'
  #memory: Buffer = this.#header
  #filled = 0
  #body: Buffer = NOTHING
  #sum = 0
  #ended: Error | null = null

  /** Call it when a question is sent. @param into memory for the piece */
  next(into: Buffer): Promise<PieceAnswer> {
    if (this.#ended !== null) return Promise.reject(this.#ended)
    const answered = Promise.withResolvers<PieceAnswer>()
    this.#waiting.push({ into, answered })
    return answered.promise
  }

  /** Memory for the next bytes. */
  get memory(): Buffer {
    return this.#memory.subarray(this.#filled, this.#filled + STEP_BYTES)
  }

  /** Takes bytes that were read into `memory`. @throws Error when they answer no question */
  received(bytes: number): void {
    const end = this.#filled + bytes
    if (this.#part === 'body') this.#sum = crc32(this.#memory.subarray(this.#filled, end), this.#sum)
    if (this.#filled % STEP_BYTES > end % STEP_BYTES) yieldCore()
    this.#filled = end
    while (this.#filled === this.#memory.byteLength) this.#nextPart()
  }

  #nextPart(): void {
    this.#filled = 0
    switch (this.#part) {
      case 'header':
        this.#memory = this.#body = this.#memoryFor(this.#header.readUInt32LE(4))
        this.#part = 'body'
        break
      case 'body':
        this.#memory = this.#checksum
        this.#part = 'checksum'
        break
      case 'checksum':
        this.#waiting.shift()!.answered.resolve({
          kind: KINDS[this.#header.readUInt32LE(0)]!,
          bytes: this.#body,
          isWhole: this.#sum === this.#checksum.readUInt32LE(0),
        })
        this.#sum = 0
        this.#memory = this.#header
        this.#part = 'header'
    }
  }

  /** The connection has ended: rejects all answers that are awaited. */
  fail(error: Error): void {
    this.#ended = error
    for (const { answered } of this.#waiting.splice(0)) answered.reject(error)
  }

  #memoryFor(length: number): Buffer {
    const [asked] = this.#waiting
    const kind = KINDS[this.#header.readUInt32LE(0)]
    const bytesMax = kind === 'piece' ? (asked?.into.byteLength ?? -1) : REASON_BYTES_MAX
    if (asked === undefined || kind === undefined || length > bytesMax)
      throw new Error('the other node sent an answer that no request asked for')
    return kind === 'piece' ? asked.into.subarray(0, length) : Buffer.alloc(length)
  }
}
