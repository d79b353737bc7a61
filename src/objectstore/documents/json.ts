/** JSON of policies, where every word counts. */

/**
 * Like JSON.parse, but a name that an object has twice is an error: of two conditions only one would be left.
 *
 * @throws Error when it is no JSON, or has a name twice
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  if (namesIn(text) !== namesOf(value)) throw new SyntaxError('an object has a name twice')
  return value
}

/** Strings of valid JSON one after the other; a name is one with a colon behind it. */
const STRING = /"(?:[^"\\]|\\.)*"(\s*:)?/g

function namesIn(text: string): number {
  let names = 0
  for (const [, colon] of text.matchAll(STRING)) if (colon !== undefined) names++
  return names
}

function namesOf(root: unknown): number {
  let names = 0
  const values = [root] // grows while it is walked: nesting may be deeper than a stack
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue
    const members: unknown[] = Object.values(value)
    if (!Array.isArray(value)) names += members.length
    for (const member of members) values.push(member)
  }
  return names
}
