/**
 * Subjects of certificates, as operators write them and as certificates have them.
 *
 * A name is written as RFC 4514 says, `CN=ci,O=acme`, the narrowest part first. Many tools write it the other way round, so both orders are the same
 * name. Names are compared part by part after escapes were resolved: types without regard to case, values exactly. Spaces around both are ignored;
 * other white space counts.
 *
 * @see RFC 4514, and X509Certificate of Node: a line for each part, the widest first, escaped as RFC 2253 says
 */

/** One name in both orders, each for comparison as a whole. */
export interface Subject {
  readonly forwards: string
  readonly backwards: string
}

/** Null: it is no name. */
export function subjectWritten(text: string): Subject | null {
  return subjectOf(split(text, ','))
}

/** @param subject of an X509Certificate; null: it has none that is a name */
export function subjectOfCertificate(subject: string): Subject | null {
  // Neither separator occurs within a value: line breaks and plus signs are escaped there.
  return subjectOf(subject.split('\n').map((part) => part.replaceAll(' + ', '+')))
}

type Attribute = readonly [type: string, value: string]

/** @param parts a part may be of several attributes, with `+` between them */
function subjectOf(parts: readonly string[]): Subject | null {
  const read = parts.map((part) => split(part, '+').map(attributeOf))
  const isName = (part: readonly (Attribute | null)[]): part is readonly Attribute[] => !part.includes(null)
  if (!read.every(isName)) return null
  // The attributes of one part have no order.
  const ordered = read.map((part) => part.map((each) => JSON.stringify(each)).toSorted())
  return { forwards: JSON.stringify(ordered), backwards: JSON.stringify(ordered.toReversed()) }
}

function attributeOf(text: string): Attribute | null {
  const [, type, rest] = /^ *([A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+) *= *(.*)$/s.exec(text) ?? []
  if (type === undefined || rest === undefined) return null
  const value = unescaped(rest.replace(/(?<!\\) +$/, ''))
  return value === null || value === '' ? null : [type.toUpperCase(), value]
}

/** Splits at characters that are not escaped. */
function split(text: string, at: ',' | '+'): readonly string[] {
  const parts: string[] = []
  let from = 0
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '\\') i += 1
    else if (text[i] === at) {
      parts.push(text.slice(from, i))
      from = i + 1
    }
  }
  return [...parts, text.slice(from)]
}

/** Null: a quote is not escaped, or an escape is incomplete. */
function unescaped(text: string): string | null {
  if (!/^(?:[^\\"]|\\[0-9A-Fa-f]{2}|\\[^0-9A-Fa-f])*$/s.test(text)) return null
  return text.replaceAll(/((?:\\[0-9A-Fa-f]{2})+)|\\(.)/gs, (_, bytes: string | undefined, character: string) =>
    bytes === undefined ? character : Buffer.from(bytes.replaceAll('\\', ''), 'hex').toString(),
  )
}
