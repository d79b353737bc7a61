/** Answers in XML, read by looking for an element in their bytes: parsing a page of 1000 keys would take longer than serving it. */
import type { HttpResponse } from '../http-response-parser.ts'
import { UnreadableAnswerError } from '../workload.ts'

const ESCAPED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"' }

/** The text of the first element of a name; null when there is none. */
export function elementText(body: Buffer, name: string): string | null {
  const open = `<${name}>`
  const at = body.indexOf(open)
  const end = at < 0 ? -1 : body.indexOf('<', at + open.length)
  return end < 0 ? null : unescaped(body.toString('utf8', at + open.length, end))
}

/** @throws UnreadableAnswerError when there is none */
export function demandElement(body: Buffer, name: string): string {
  const text = elementText(body, name)
  if (text === null) throw new UnreadableAnswerError(`no <${name}> in an answer`)
  return text
}

/** Texts of all elements of a name, in order. */
export const elementTexts = (body: Buffer, name: string): string[] =>
  Array.from(body.toString().matchAll(new RegExp(`<${name}>([^<]*)<`, 'g')), ([, text]) => unescaped(text!))

const unescaped = (text: string): string =>
  text.replaceAll(/&(amp|lt|gt|quot);/g, (escape, name: string) => ESCAPED[name] ?? escape)

/** The code of a refusal: `<Error><Code>…`. Answers to HEAD have none. */
export function refusalKind({ body }: HttpResponse): string {
  const code = elementText(body, 'Code') ?? ''
  return /^[A-Z][A-Za-z0-9]*$/.test(code) ? code : 'unknown'
}
