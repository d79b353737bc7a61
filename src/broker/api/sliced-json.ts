/** JSON of an answer with a list that may be long. It is made in slices, so that no answer blocks the main thread. */
import type { Answer } from '../../engine/decision.ts'
import type { EndpointAnswer } from '../../http/endpoint.ts'
import { SLICE_ENTRIES } from '../limits.ts'

/**
 * Passes a reply with a short list on to the serialiser of its schema. A longer reply becomes bytes, with the same members in the same order.
 *
 * @param list name of the member that holds the list
 * @param turn resolves when other work had its turn
 */
export const inSlices = <Reply extends object>(
  answer: EndpointAnswer<Reply>,
  list: keyof Reply & string,
  turn: () => Promise<void>,
): Answer<Reply> => ({
  answered(reply) {
    const entries: unknown = reply[list]
    if (!Array.isArray(entries) || entries.length <= SLICE_ENTRIES) return answer.answered(reply)
    void bytesOf(reply, list, entries, turn).then((bytes) => answer.answered(bytes))
  },
  refused: (error) => answer.refused(error),
})

async function bytesOf(
  reply: object,
  list: string,
  entries: readonly unknown[],
  turn: () => Promise<void>,
): Promise<Uint8Array<ArrayBuffer>> {
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
