/**
 * What gRPC writes over HTTP/2: heads of messages, texts of statuses, deadlines.
 *
 *   message   compressed u8 (0 or 1), length u32 big-endian, bytes
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 */
const MESSAGE_HEAD_BYTES = 5

export const GRPC_TYPE = 'application/grpc'

/** Whether a request is a gRPC call by its content type. Answers have `application/grpc+proto`. */
export const isGrpcType = (contentType: string): boolean =>
  contentType === GRPC_TYPE || contentType.startsWith(`${GRPC_TYPE}+`) || contentType.startsWith(`${GRPC_TYPE};`)

/** A message that is not compressed, with its head. */
export function framedMessage(message: Uint8Array): Buffer {
  const framed = Buffer.alloc(MESSAGE_HEAD_BYTES + message.byteLength)
  framed.writeUInt32BE(message.byteLength, 1)
  framed.set(message, MESSAGE_HEAD_BYTES)
  return framed
}

/** `grpc-message`: UTF-8 with everything escaped but visible ASCII and the blank. */
export const statusText = (message: string): string =>
  message.replaceAll(/[^\x20-\x7e]+|%/gu, (text) =>
    Array.from(Buffer.from(text), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  )

const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 }

/** `grpc-timeout` in milliseconds; Infinity when it is absent or malformed. */
export function timeoutMs(header: string): number {
  const [, value, unit] = /^(\d{1,8})([HMSmun])$/.exec(header) ?? []
  return unit === undefined ? Infinity : Number(value) * UNIT_MS[unit]!
}

/** Gathers the head of a call's one message from the bytes that arrive. */
export class MessageHead {
  readonly #bytes = Buffer.alloc(MESSAGE_HEAD_BYTES)
  #have = 0

  get isWhole(): boolean {
    return this.#have === MESSAGE_HEAD_BYTES
  }

  /** @returns how many of the bytes belong to the head */
  add(bytes: Uint8Array): number {
    const taken = Math.min(MESSAGE_HEAD_BYTES - this.#have, bytes.byteLength)
    for (let i = 0; i < taken; i++) this.#bytes[this.#have + i] = bytes[i]!
    this.#have += taken
    return taken
  }

  /** Null: the flag is neither 0 nor 1. */
  get isCompressed(): boolean | null {
    const flag = this.#bytes[0]!
    return flag > 1 ? null : flag === 1
  }

  get messageBytes(): number {
    return this.#bytes.readUInt32BE(1)
  }
}
