/** What the tests of documents share: refusals by code, and any XML as a tree. */
import assert from 'node:assert/strict'
import { SaxesParser } from 'saxes'
import fc from 'fast-check'
import { S3Error } from '../../src/objectstore/refusals.ts'
import type { RefusalCode, RefusalFields } from '../../src/objectstore/refusals.ts'
import { codePoint } from './code-point.ts'

export const bytes = (text: string): Buffer => Buffer.from(text)

export function refusalOf(run: () => unknown): S3Error {
  try {
    run()
  } catch (error) {
    if (error instanceof S3Error) return error
    throw error
  }
  return assert.fail('it was not refused')
}

/** @param about what the refusal must say besides its code */
export function assertRefuses(
  run: () => unknown,
  code: RefusalCode,
  about: { readonly message?: string | RegExp; readonly fields?: RefusalFields } = {},
): void {
  const refusal = refusalOf(run)
  assert.equal(refusal.code, code, refusal.message)
  if (typeof about.message === 'string') assert.equal(refusal.message, about.message)
  if (about.message instanceof RegExp) assert.match(refusal.message, about.message)
  if (about.fields !== undefined) assert.deepEqual(refusal.fields, about.fields)
}

export interface XmlNode {
  readonly name: string
  readonly namespace: string | null
  readonly children: readonly XmlNode[]
  readonly text: string
}

/** The parser is given nothing but the XML itself, and so fails on XML that is not well-formed. */
export function parseTree(xml: string): XmlNode {
  type Growing = { name: string; namespace: string | null; children: Growing[]; text: string }
  const open: Growing[] = []
  let root: Growing | null = null
  const parser = new SaxesParser()
  parser.on('opentag', ({ name, attributes }) => {
    const node: Growing = { name, namespace: attributes['xmlns'] ?? null, children: [], text: '' }
    open.at(-1)?.children.push(node)
    root ??= node
    open.push(node)
  })
  parser.on('text', (text) => {
    if (open.length > 0) open.at(-1)!.text += text
  })
  parser.on('closetag', () => open.pop())
  parser.write(xml).close()
  return root!
}

/** A tree as plain values: an element without children is its text, and every other one lists `[name, value]`. */
export type Plain = string | readonly (readonly [string, Plain])[]

export const plain = ({ children, text }: XmlNode): Plain =>
  children.length === 0 ? text : children.map((child) => [child.name, plain(child)] as const)

/** Texts that XML can carry: as much of Unicode as XML 1.0 allows. */
export const xmlText = fc.string({ unit: codePoint, maxLength: 40 }).filter((text) => isXmlText(text))

/** Anything a key or a name may be, whether XML can carry it or not. */
export const anyText = fc.string({ unit: codePoint, maxLength: 40 })

// oxlint-disable-next-line no-control-regex -- they are what is looked for
const isXmlText = (text: string): boolean => !/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/.test(text)

/** Bytes cut into chunks at any places. */
export function chunkings(body: Buffer): fc.Arbitrary<readonly Buffer[]> {
  return fc.uniqueArray(fc.nat({ max: body.length }), { maxLength: 12 }).map((cuts) => {
    const sorted = [0, ...cuts.sort((a, b) => a - b), body.length]
    return sorted.slice(1).map((end, i) => body.subarray(sorted[i], end))
  })
}
