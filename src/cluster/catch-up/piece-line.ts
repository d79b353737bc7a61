/**
 * How pieces of files go from one node to another: over a connection that begins as HTTP and is then this protocol's. Node's HTTP client copies what it
 * receives; here the kernel puts it into the memory that was given for it.
 *
 *   question  path=…&from=…&bytes=…\n
 *   answer    u32 kind, u32 length, so many bytes (the piece, or why there is none), u32 CRC-32 of them
 *
 * Y1  answers come in the order of the questions
 * Y2  the side that gives has one piece in memory, and reads the next one when the kernel has taken it
 * Y3  both sides rest after each step, so that other threads get the core
 */
import type { Duplex } from 'node:stream'
import { crc32 } from 'node:zlib'
import { messageOf } from '../../errors.ts'
import { STEP_BYTES, letOthersRun, restingSteps } from '../../pipeline/niceness.ts'

/** As HTTP's header `upgrade` names it. */
export const PIECE_PROTOCOL = 'trilog-pieces'

const KINDS = ['piece', 'gone', 'refused'] as const

export interface PieceAnswer {
  readonly kind: (typeof KINDS)[number]
  /** The piece, in the memory that was given for it, or why it is refused. */
  readonly bytes: Buffer
  /** Its checksum says that they are what the other side has sent. */
  readonly isWhole: boolean
}

const HEADER_BYTES = 8
const CHECKSUM_BYTES = 4
const NOTHING = Buffer.alloc(0)
const QUESTION_LENGTH_MAX = 1000
const REASON_BYTES_MAX = 10_000

/**
 * Answers until the other side is gone, or asks what is no question.
 *
 * @param give a piece, which is sent before the next one is asked for; null: the file is gone
 */
export async function givePieces(
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
    // The connection is broken: there is nobody to tell.
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

/** What answers arrive in. */
export class PieceAnswers {
  readonly #waiting: Waiting[] = []
  readonly #header = Buffer.alloc(HEADER_BYTES)
  readonly #checksum = Buffer.alloc(CHECKSUM_BYTES)
  /** What arrives of the answer to the oldest question, where, and how much of it has come. */
  #part: Part = 'header'
  #memory: Buffer = this.#header
  #filled = 0
  #body: Buffer = NOTHING
  #sum = 0
  #ended: Error | null = null

  /** A question was asked. */
  next(into: Buffer): Promise<PieceAnswer> {
    if (this.#ended !== null) return Promise.reject(this.#ended)
    const answered = Promise.withResolvers<PieceAnswer>()
    this.#waiting.push({ into, answered })
    return answered.promise
  }

  /** Where the next bytes have to be. */
  get place(): Buffer {
    return this.#memory.subarray(this.#filled, this.#filled + STEP_BYTES)
  }

  /** So many have come there. @throws Error for what is no answer */
  came(bytes: number): void {
    const end = this.#filled + bytes
    if (this.#part === 'body') this.#sum = crc32(this.#memory.subarray(this.#filled, end), this.#sum)
    if (this.#filled % STEP_BYTES > end % STEP_BYTES) letOthersRun()
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

  /** Nothing comes any more. */
  fail(error: Error): void {
    this.#ended = error
    for (const { answered } of this.#waiting.splice(0)) answered.reject(error)
  }

  #memoryFor(length: number): Buffer {
    const [asked] = this.#waiting
    const kind = KINDS[this.#header.readUInt32LE(0)]
    const bytesMax = kind === 'piece' ? (asked?.into.byteLength ?? -1) : REASON_BYTES_MAX
    if (asked === undefined || kind === undefined || length > bytesMax)
      throw new Error('the other node answers what was not asked')
    return kind === 'piece' ? asked.into.subarray(0, length) : Buffer.alloc(length)
  }
}
