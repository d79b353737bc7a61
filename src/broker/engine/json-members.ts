/**
 * Gives the members of an object in JSON one by one, and the elements of its long arrays. Parsing a text of some MiB at once would block the thread.
 * It reads only what JSON.stringify wrote: valid texts without white space.
 */
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

export interface JsonMember {
  readonly name: string
  /** An element, if the member is one of `arrays`. */
  readonly value: unknown
  /** Where it ends in the text. */
  readonly end: number
}

/**
 * @param arrays names of members that are arrays and are given element by element
 * @throws SyntaxError when the text is not such an object
 */
export function* jsonMembers(text: Buffer, arrays: ReadonlySet<string>): Generator<JsonMember, void, undefined> {
  if (text[0] !== OPEN_BRACE) throw notRead()
  let at = 1
  while (text[at] !== CLOSE_BRACE) {
    if (text[at] === COMMA) at += 1
    const nameEnd = endOfString(text, at)
    const name = parse(text, at, nameEnd) as string // a text between quotes
    at = nameEnd + 1 // behind the colon
    if (arrays.has(name) && text[at] === OPEN_BRACKET) {
      at += 1
      while (text[at] !== CLOSE_BRACKET) {
        if (text[at] === COMMA) at += 1
        const end = endOfValue(text, at)
        yield { name, value: parse(text, at, end), end }
        at = end
      }
      at += 1
    } else {
      const end = endOfValue(text, at)
      yield { name, value: parse(text, at, end), end }
      at = end
    }
  }
}

const parse = (text: Buffer, from: number, to: number): unknown => JSON.parse(text.toString('utf8', from, to))

function endOfValue(text: Buffer, from: number): number {
  let depth = 0
  for (let at = from; at < text.byteLength; at++) {
    const byte = text[at]!
    if (byte === QUOTE) {
      at = endOfString(text, at) - 1
      if (depth === 0) return at + 1
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth += 1
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      if (depth === 0) return at // behind a number, or a word
      depth -= 1
      if (depth === 0) return at + 1
    } else if (byte === COMMA && depth === 0) {
      return at
    }
  }
  throw notRead()
}

/** @param from where its first quote is */
function endOfString(text: Buffer, from: number): number {
  if (text[from] !== QUOTE) throw notRead()
  for (let at = from + 1; ;) {
    const quote = text.indexOf(QUOTE, at)
    if (quote < 0) throw notRead()
    let backslashes = 0
    while (text[quote - 1 - backslashes] === BACKSLASH) backslashes += 1
    if (backslashes % 2 === 0) return quote + 1
    at = quote + 1
  }
}

const notRead = (): SyntaxError => new SyntaxError('not an object in JSON')
