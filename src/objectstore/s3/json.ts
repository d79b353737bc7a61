/** JSON of policies, where every word counts. */
import { checkParsed } from '../../../native-free-codecs/json-reader.ts'

const DEPTH_MAX = 64

/**
 * Like JSON.parse, but a name that an object has twice is an error: JSON.parse keeps only one of two conditions. So is nesting that is too deep.
 *
 * @throws Error when it is no JSON, has a name twice, or is nested too deep
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  checkParsed(text, value, DEPTH_MAX)
  return value
}
