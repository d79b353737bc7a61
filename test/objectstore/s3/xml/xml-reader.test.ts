/** Strict XML: the reader takes what fits the shape, and refuses everything else, within bounds. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { readXml, readXmlInSlices } from '../../../../src/objectstore/s3/xml/xml-reader.ts'
import { element, list, once, optional, text } from '../../../../src/objectstore/s3/xml/xml-shape.ts'
import { escapeXml } from '../../../../src/objectstore/s3/xml/xml-text.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { assertRefuses, bytes, xmlText } from '../../../support/documents.ts'

const LIBRARY = {
  name: 'Library',
  bytesMax: 1 << 20,
  shape: element({
    Name: once(text),
    Town: optional(text),
    Book: list(element({ Title: once(text), Author: list(text, { min: 1, max: 3 }) }), {
      min: 0,
      max: 2,
      refusal: 'InvalidTag',
    }),
  }),
} as const

const read = (xml: string) => readXml(bytes(xml), LIBRARY)

describe('the XML reader', () => {
  it('gives what the shape names', () => {
    const library = read(`<?xml version="1.0" encoding="UTF-8"?>
      <!-- ours -->
      <Library xmlns="http://s3.amazonaws.com/doc/2006-03-01/" size="small">
        <Book><Title>A &amp; B</Title><Author>x</Author><Author><![CDATA[<y>]]></Author></Book>
        <Name>  R&#233;sum&#xe9; </Name>
      </Library>`)
    assert.deepEqual(library, {
      Name: '  Résumé ',
      Town: null,
      Book: [{ Title: 'A & B', Author: ['x', '<y>'] }],
    })
  })

  it('ignores prefixes and namespaces', () => {
    assert.equal(read('<s3:Library xmlns:s3="urn:other"><s3:Name>n</s3:Name></s3:Library>').Name, 'n')
  })

  it('takes a byte order mark and an empty element', () => {
    assert.equal(read('\ufeff<Library><Name/></Library>').Name, '')
  })

  const REFUSED: readonly (readonly [why: string, xml: string])[] = [
    ['nothing', ''],
    ['white space', ' \n'],
    ['no XML', '{"Name":"n"}'],
    ['another root', '<Shop><Name>n</Name></Shop>'],
    ['an unknown element', '<Library><Name>n</Name><Door/></Library>'],
    ['an element in text', '<Library><Name>n<b/></Name></Library>'],
    ['text between elements', '<Library>text<Name>n</Name></Library>'],
    ['a missing element', '<Library><Town>t</Town></Library>'],
    ['one element twice', '<Library><Name>n</Name><Name>m</Name></Library>'],
    ['a list that is too short', '<Library><Name>n</Name><Book><Title>t</Title></Book></Library>'],
    ['an end that is missing', '<Library><Name>n</Name>'],
    ['an end too many', '<Library><Name>n</Name></Library></Library>'],
    ['ends in the wrong order', '<Library><Name>n</Library></Name>'],
    ['a second root', '<Library><Name>n</Name></Library><Library><Name>n</Name></Library>'],
    ['text after the end', '<Library><Name>n</Name></Library>more'],
    ['names of JavaScript', '<Library><Name>n</Name><constructor/></Library>'],
    ['names of objects', '<Library><Name>n</Name><__proto__/></Library>'],
    ['another encoding', '<?xml version="1.0" encoding="ISO-8859-1"?><Library><Name>n</Name></Library>'],
    ['a character that XML has not', '<Library><Name>&#1;</Name></Library>'],
    ['an unknown entity', '<Library><Name>&nbsp;</Name></Library>'],
    ['an entity with a name of JavaScript', '<Library><Name>&constructor;</Name></Library>'],
    ['an attribute without value', '<Library a><Name>n</Name></Library>'],
  ]
  for (const [why, xml] of REFUSED) {
    it(`refuses ${why}`, () => assertRefuses(() => read(xml), 'MalformedXML'))
  }

  it('refuses a tag at the first attribute too many', () => {
    const attributes = (count: number): string => Array.from({ length: count }, (_, i) => ` a${i}="${i}"`).join('')
    const document = (count: number): string =>
      `<Library${attributes(count)}><Name${attributes(count)}>n</Name></Library>`
    assert.equal(read(document(16)).Name, 'n')
    assertRefuses(() => read(document(17)), 'MalformedXML')
    assertRefuses(() => read(`<Library${attributes(16)}><Name${attributes(17)}>n</Name></Library>`), 'MalformedXML')

    const flood = bytes(`<Library${attributes(60_000)}`)
    let slices = 0
    assertRefuses(() => {
      for (const _ of readXmlInSlices(flood, LIBRARY)) slices++
    }, 'MalformedXML')
    assert.equal(slices, 0, 'the rest of the tag is not read')
  })

  it('refuses bytes that are not UTF-8', () => {
    const latin = Buffer.from('<Library><Name>caf\xe9</Name></Library>', 'latin1')
    assertRefuses(() => readXml(latin, LIBRARY), 'MalformedXML')
  })

  it('refuses what is too large before it looks at it', () => {
    const fields = { ProposedSize: 5, MaxSizeAllowed: 4 }
    assertRefuses(() => readXml(bytes('<a/>!'), { ...LIBRARY, bytesMax: 4 }), 'EntityTooLarge', { fields })
  })

  it('says of a list that is too long what the shape says', () => {
    const book = '<Book><Title>t</Title><Author>a</Author></Book>'
    assertRefuses(() => read(`<Library><Name>n</Name>${book.repeat(3)}</Library>`), 'InvalidTag')
    const authors = `<Book><Title>t</Title>${'<Author>a</Author>'.repeat(4)}</Book>`
    assertRefuses(() => read(`<Library><Name>n</Name>${authors}</Library>`), 'MalformedXML')
  })

  it('refuses entities and external ones without expanding or fetching them', () => {
    const laughs = Array.from({ length: 9 }, (_, i) => `<!ENTITY l${i + 1} "${`&l${i};`.repeat(10)}">`).join('')
    assertRefuses(
      () => read(`<!DOCTYPE x [<!ENTITY l0 "lol">${laughs}]><Library><Name>&l9;</Name></Library>`),
      'MalformedXML',
    )
    const external = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><Library><Name>&e;</Name></Library>'
    assertRefuses(() => read(external), 'MalformedXML')
    assertRefuses(() => read('<!DOCTYPE x><Library><Name>n</Name></Library>'), 'MalformedXML')
  })

  it('refuses floods of 1 MiB at once', () => {
    const MIB = 1 << 20
    const floods = [
      '<a>'.repeat(MIB / 3),
      `<Library><Name>${'<b>'.repeat(300_000)}`,
      `<Library ${Array.from({ length: 80_000 }, (_, i) => `a${i}=""`).join(' ')}><Door/></Library>`,
      `<Library a="${'&amp;'.repeat(200_000)}"><Door/></Library>`,
      `<${'a'.repeat(MIB - 2)}/`,
      '<!--'.padEnd(MIB, '-'),
      `<![CDATA[${']'.repeat(MIB - 10)}`,
      `<?${'x'.repeat(MIB - 2)}`,
      `<Library><Name>&${'a'.repeat(MIB - 20)}`,
      `<Library>${'<!-- -->'.repeat(130_000)}<Door/>`,
    ]
    for (const flood of floods) assertRefuses(() => read(flood.slice(0, MIB)), 'MalformedXML')
  })

  it('gives back any text that XML can carry', () => {
    fc.assert(
      fc.property(
        xmlText,
        fc.array(fc.array(xmlText, { minLength: 1, maxLength: 3 }), { maxLength: 2 }),
        (name, books) => {
          const bookElements = books.map(
            (authors) =>
              `<Book>${authors.map((author) => `<Author>${escapeXml(author)}</Author>`).join('')}<Title>t</Title></Book>`,
          )
          const library = read(`<Library>${bookElements.join('')}<Name>${escapeXml(name)}</Name></Library>`)
          assert.deepEqual(library, { Name: name, Town: null, Book: books.map((Author) => ({ Title: 't', Author })) })
        },
      ),
    )
  })

  it('ends with a value or a refusal, whatever comes', () => {
    const readable = (body: Uint8Array): boolean => {
      try {
        readXml(body, LIBRARY)
        return true
      } catch (error) {
        assert.ok(error instanceof S3Error, String(error))
        return false
      }
    }
    const pieces = fc.constantFrom(
      '<',
      '>',
      '</',
      '/>',
      'Library',
      'Name',
      'Book',
      '&',
      ';',
      '"',
      '=',
      '<![CDATA[',
      ']]>',
      '<?',
      ' ',
      'x',
    )
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (body) => void readable(body)))
    fc.assert(fc.property(fc.array(pieces, { maxLength: 40 }), (parts) => void readable(bytes(parts.join('')))))
    const whole = '<Library><Name>n</Name><Book><Title>t</Title><Author>a</Author></Book></Library>'
    assert.ok(readable(bytes(whole)))
    for (let end = 0; end < whole.length; end++) assert.ok(!readable(bytes(whole.slice(0, end))), `cut at ${end}`)
  })
})
