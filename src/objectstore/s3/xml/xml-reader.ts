/**
 * XML of a request, read strictly and checked against its shape on the way.
 *
 * Every mistake is MalformedXML, but too many bytes are EntityTooLarge.
 *
 * X1  no DOCTYPE, no entity but the five of XML: nothing is expanded, nothing is fetched
 * X2  what does not fit the shape ends the parse there, so depth and elements are bounded by the shape, memory by the size of the document
 * X3  namespaces and attributes are ignored, comments too; text between elements may only be white space
 * X4  a tag has at most ATTRIBUTES_MAX attributes: the parser looks at all of a tag at once
 * X5  a long document is read in slices, each counted in the steps of slices.ts: 1 MiB takes tens of milliseconds
 */
import type * as Saxes from 'saxes'
import { requirePackage } from '../../../require-package.ts'
import { S3Error, refuse } from '../../refusals.ts'
import { atOnce } from '../../../steps.ts'
import type { Sliced } from '../slices.ts'
import type { ElementShape, Shape, ValueOf } from './xml-shape.ts'

export interface XmlDocument<Root extends ElementShape> {
  /** Name of the root element. */
  readonly name: string
  readonly shape: Root
  readonly bytesMax: number
}

interface OpenElement {
  readonly shape: Shape
  readonly name: string
  readonly values: Record<string, unknown>
  text: string
}

const { SaxesParser } = requirePackage('saxes') as typeof Saxes
const NO_VALUES: Record<string, unknown> = Object.freeze({})
/** X5 */
const SLICE_CHARACTERS = 32 << 10
const STEPS_PER_CHARACTER = 8
/** X4. More than tools write: a namespace or two, and where its schema is. */
const ATTRIBUTES_MAX = 16
const NOT_WHITE_SPACE = /[^ \t\r\n]/
const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * @param body whole request body, UTF-8
 * @throws S3Error MalformedXML, EntityTooLarge, or what the shape says of a list that is too long
 */
export const readXml = <Root extends ElementShape>(body: Uint8Array, document: XmlDocument<Root>): ValueOf<Root> =>
  atOnce(readXmlInSlices(body, document))

/** X5. @throws S3Error as `readXml` */
export function* readXmlInSlices<Root extends ElementShape>(
  body: Uint8Array,
  document: XmlDocument<Root>,
): Sliced<ValueOf<Root>> {
  if (body.byteLength > document.bytesMax) {
    throw refuse('EntityTooLarge', undefined, {
      fields: { ProposedSize: body.byteLength, MaxSizeAllowed: document.bytesMax },
    })
  }
  const reader = new ShapeReader(document)
  try {
    yield* reader.read(decoder.decode(body))
  } catch (error) {
    if (error instanceof S3Error) throw error
    throw refuse('MalformedXML', undefined, { cause: error })
  }
  return reader.value as ValueOf<Root> // built along the shape
}

class ShapeReader {
  readonly #document: XmlDocument<ElementShape>
  readonly #open: OpenElement[] = []
  /** How many attributes the tag that is being read has. */
  #attributes = 0
  value: unknown

  constructor(document: XmlDocument<ElementShape>) {
    this.#document = document
  }

  *read(document: string): Sliced<void> {
    const parser = new SaxesParser({ position: false }) // the parser throws its errors if it has no handler for them
    parser.on('doctype', malformed) // X1
    parser.on('xmldecl', ({ encoding = 'utf-8' }) => {
      if (!/^(utf-8|us-ascii)$/i.test(encoding)) malformed()
    })
    parser.on('opentagstart', ({ name }) => this.#begin(localName(name)))
    parser.on('attribute', () => void (++this.#attributes > ATTRIBUTES_MAX && malformed())) // X4
    parser.on('text', (text) => this.#text(text))
    parser.on('cdata', (text) => this.#text(text))
    parser.on('closetag', () => this.#end())
    for (let at = 0; at < document.length; at += SLICE_CHARACTERS) {
      parser.write(document.slice(at, at + SLICE_CHARACTERS))
      yield STEPS_PER_CHARACTER * SLICE_CHARACTERS
    }
    parser.close()
  }

  /** X2 */
  #begin(name: string): void {
    this.#attributes = 0
    const shape = this.#open.length === 0 ? this.#rootShape(name) : this.#childShape(name)
    this.#open.push({ shape, name, values: shape.kind === 'element' ? {} : NO_VALUES, text: '' })
  }

  #rootShape(name: string): Shape {
    return name === this.#document.name ? this.#document.shape : malformed()
  }

  #childShape(name: string): Shape {
    const { shape, values } = this.#open.at(-1)!
    if (shape.kind === 'text' || !Object.hasOwn(shape.children, name)) return malformed()
    const child = shape.children[name]!
    if (child.times === 'list') {
      const items = (values[name] ??= []) as unknown[]
      if (items.length === child.max) throw refuse(child.refusal)
    } else if (values[name] !== undefined) {
      return malformed()
    }
    return child.shape
  }

  /** X3 */
  #text(text: string): void {
    const open = this.#open.at(-1)
    if (open?.shape.kind === 'text') open.text += text
    else if (NOT_WHITE_SPACE.test(text)) malformed()
  }

  #end(): void {
    const { shape, name, values, text } = this.#open.pop()!
    if (shape.kind === 'element') complete(shape, values)
    const value = shape.kind === 'element' ? values : text
    const parent = this.#open.at(-1)
    if (parent === undefined) this.value = value
    else if (Array.isArray(parent.values[name])) parent.values[name].push(value)
    else parent.values[name] = value
  }
}

/** Fills in what may be missing. */
function complete({ childList }: ElementShape, values: Record<string, unknown>): void {
  for (const [name, child] of childList) {
    const value = (values[name] ??= child.times === 'list' ? [] : null)
    if (child.times === 'once' && value === null) malformed()
    if (child.times === 'list' && (value as unknown[]).length < child.min) malformed()
  }
}

const localName = (name: string): string => name.slice(name.indexOf(':') + 1)

function malformed(): never {
  throw refuse('MalformedXML')
}
