/** RESP 2, the protocol of Redis: commands as arrays of bulk strings, replies of five types told by their first byte. */

/** An array of bulk strings. @param words ASCII */
export function respCommand(...words: readonly string[]): Buffer {
  const bulk = words.map((word) => `$${word.length}\r\n${word}\r\n`)
  return Buffer.from(`*${words.length}\r\n${bulk.join('')}`, 'latin1')
}

export type RespValue = string | number | null | readonly RespValue[]

export interface RespReply {
  readonly value: RespValue
  /** End of the reply, from the start of the bytes. */
  readonly endBytes: number
}

/**
 * @returns null when the reply is not complete
 * @throws Error what the server calls an error
 */
export function readResp(bytes: Buffer, from = 0): RespReply | null {
  const lineEnd = bytes.indexOf('\r\n', from)
  if (lineEnd < 0) return null
  const line = bytes.toString('latin1', from + 1, lineEnd)
  const next = lineEnd + 2
  switch (String.fromCharCode(bytes[from]!)) {
    case '+':
      return { value: line, endBytes: next }
    case ':':
      return { value: Number(line), endBytes: next }
    case '$':
      return readBulk(bytes, next, Number(line))
    case '*':
      return readArray(bytes, next, Number(line))
    default:
      throw new Error(`redis answered '${line}'`)
  }
}

function readBulk(bytes: Buffer, from: number, length: number): RespReply | null {
  if (length < 0) return { value: null, endBytes: from }
  const endBytes = from + length + 2
  return bytes.byteLength < endBytes ? null : { value: bytes.toString('latin1', from, from + length), endBytes }
}

function readArray(bytes: Buffer, from: number, length: number): RespReply | null {
  if (length < 0) return { value: null, endBytes: from }
  const value: RespValue[] = []
  let endBytes = from
  for (let index = 0; index < length; index++) {
    const element = readResp(bytes, endBytes)
    if (element === null) return null
    value.push(element.value)
    endBytes = element.endBytes
  }
  return { value, endBytes }
}
