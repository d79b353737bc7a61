/** JSON of an answer with a list that may be long: made in slices, so that no answer holds main, whatever its length. */
import { SLICE_ENTRIES } from '../limits.ts'

/**
 * The answer as it is when its list is short, for the serialiser of its schema; else its bytes, with the same members in the same order.
 *
 * @param list name of the member that holds the list
 * @param turn resolves when others had their turn
 */
export async function inSlices<Reply extends object>(
  reply: Reply,
  list: keyof Reply & string,
  turn: () => Promise<void>,
): Promise<Reply | Uint8Array<ArrayBuffer>> {
  const entries: unknown = reply[list]
  if (!Array.isArray(entries) || entries.length <= SLICE_ENTRIES) return reply
  const parts: Buffer[] = []
  let before = '{'
  for (const [name, value] of Object.entries(reply)) {
    const member = `${before}${JSON.stringify(name)}:`
    before = ','
    if (name !== list) {
      parts.push(Buffer.from(member + JSON.stringify(value)))
      continue
    }
    let begin = `${member}[`
    for (let from = 0; from < entries.length; from += SLICE_ENTRIES) {
      const texts = entries.slice(from, from + SLICE_ENTRIES).map((entry) => JSON.stringify(entry))
      parts.push(Buffer.from(begin + texts.join(',')))
      begin = ','
      await turn()
    }
    parts.push(Buffer.from(']'))
  }
  parts.push(Buffer.from('}'))
  return Buffer.concat(parts)
}
