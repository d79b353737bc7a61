/** Text in XML answers: always well-formed, and exact wherever XML allows it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { escapeXml, isoTime, textElement, urlEncode } from '../../../../src/objectstore/s3/xml/xml-text.ts'
import { anyText, parseTree, xmlText } from '../../../support/documents.ts'

const parsed = (text: string): string => parseTree(`<a>${escapeXml(text)}</a>`).text

describe('text in XML', () => {
  it('is escaped where it would be read as something else', () => {
    assert.equal(escapeXml('a<b>&"c\''), "a&lt;b&gt;&amp;&quot;c'")
    assert.equal(escapeXml('a\r\nb\tc'), 'a&#13;\nb\tc')
    assert.equal(escapeXml('ключ 🗝 \u0085\u2028'), 'ключ 🗝 \u0085\u2028')
  })

  it('has a replacement for what XML 1.0 cannot carry', () => {
    assert.equal(
      escapeXml('a\u0000b\u0008\u000b\u001f\ufffe\uffff\ud800c'),
      'a\ufffdb\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdc',
    )
  })

  it('is given back by a parser, whatever it was', () => {
    fc.assert(fc.property(xmlText, (text) => assert.equal(parsed(text), text)))
  })

  it('is well-formed, whatever it was', () => {
    const anyUnits = fc.array(fc.nat({ max: 0xffff })).map((units) => String.fromCharCode(...units))
    fc.assert(
      fc.property(fc.oneof(anyText, anyUnits), (text) => assert.equal(parsed(text).length > 0, text.length > 0)),
    )
  })

  it('is escaped character by character, however long it is', () => {
    const isXml = (code: number): boolean =>
      code >= 0x20 ? (code < 0xd800 || code > 0xdfff) && code !== 0xfffe && code !== 0xffff : code === 9 || code === 10
    const one = (character: string): string =>
      ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\r': '&#13;' })[character] ??
      (isXml(character.codePointAt(0)!) ? character : '\ufffd')
    const units = fc.oneof(
      fc.constantFrom(...Array.from('&<>"\r\n\t\0\u001f\ufffe\uffff\ud83d\ude00é€a'), '\ud800', '\ude00'),
      fc.string(),
    )
    const texts = fc.array(units, { size: 'max', maxLength: 3000 }).map((all) => all.join(''))
    fc.assert(fc.property(texts, (text) => assert.equal(escapeXml(text), Array.from(text, one).join(''))))
  })

  it('costs no call for each character', (t) => {
    let calls = 0
    const replace = Reflect.get(String.prototype, 'replace') as (pattern: RegExp, by: unknown) => string
    t.mock.method(String.prototype, 'replace', function (this: string, pattern: RegExp, by: unknown) {
      if (typeof by === 'function') calls += this.match(pattern)?.length ?? 0
      return replace.call(this, pattern, by)
    })
    assert.equal(escapeXml('&'.repeat(1024)), '&amp;'.repeat(1024))
    assert.equal(calls, 0)
  })

  it('is an element, or nothing when there is none', () => {
    assert.equal(textElement('Key', 'a&b'), '<Key>a&amp;b</Key>')
    assert.equal(textElement('Key', ''), '<Key></Key>')
    assert.equal(textElement('Key', null), '')
  })
})

describe('a URL-encoded key', () => {
  it('keeps unreserved characters and slashes', () => {
    assert.equal(urlEncode("a/b-c_d.e~f!'()*/0"), "a/b-c_d.e~f!'()*/0")
    assert.equal(urlEncode('foo+1 b%é/\u0001'), 'foo%2B1%20b%25%C3%A9/%01')
  })

  it('needs no escape in XML and decodes to what it was', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const encoded = urlEncode(text)
        assert.match(encoded, /^[A-Za-z0-9\-._~!'()*/%]*$/)
        assert.equal(escapeXml(encoded), encoded)
        assert.equal(decodeURIComponent(encoded), text)
      }),
    )
  })

  it('has a replacement for half a character', () => {
    assert.equal(urlEncode('a\ud800'), 'a%EF%BF%BD')
  })
})

describe('a time in XML', () => {
  it('is of ISO 8601 in milliseconds', () => {
    assert.equal(isoTime(Date.UTC(2026, 10, 20, 9, 30, 5, 999)), '2026-11-20T09:30:05.999Z')
    assert.equal(isoTime(0), '1970-01-01T00:00:00.000Z')
  })

  it('is what Date says, in any order of times', () => {
    const times = fc.array(fc.integer({ min: 0, max: Date.UTC(2100, 0) }), { minLength: 1 })
    fc.assert(
      fc.property(times, (times) => {
        for (const timeMs of times) {
          assert.equal(isoTime(timeMs), new Date(timeMs).toISOString())
        }
      }),
    )
  })
})
