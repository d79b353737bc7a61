import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { subjectOfCertificate, subjectWritten } from '../../src/config/subject.ts'
import { Authority } from '../support/certificates.ts'
import type { Name } from '../support/certificates.ts'

const authority = new Authority('an authority')
const ofCertificate = (name: Name): string | undefined =>
  subjectOfCertificate(new X509Certificate(authority.certify(name).cert).subject)?.forwards

const isSame = (written: string, name: Name): boolean => {
  const subject = subjectWritten(written)
  const shown = ofCertificate(name)
  return subject !== null && (subject.forwards === shown || subject.backwards === shown)
}

describe('a subject', () => {
  const name: Name = [
    ['C', 'DE'],
    ['O', 'acme'],
    ['CN', 'ci'],
  ]

  it('is written from either end, with spaces around its parts, and types in any case', () => {
    for (const written of ['CN=ci,O=acme,C=DE', 'C=DE, O=acme, CN=ci', ' cn = ci , o=acme,c=DE ']) {
      assert(isSame(written, name), written)
    }
  })

  it('may begin and end with white space that is no space', () => {
    for (const value of ['\u00a0', '\u2003x', 'x\u3000'])
      assert(isSame(`CN=${value}`, [['CN', value]]), JSON.stringify(value))
  })

  it('is another one when a part is missing, added, changed, or stands elsewhere', () => {
    for (const written of [
      'CN=ci',
      'CN=ci,O=acme',
      'CN=ci,O=acme,C=DE,OU=x',
      'CN=CI,O=acme,C=DE',
      'O=acme,CN=ci,C=DE',
      'CN=ci+O=acme,C=DE',
      'CN=ci\\,O=acme,C=DE',
    ]) {
      assert(!isSame(written, name), written)
    }
  })

  it('is none when it has no value, an escape that is not whole, or quotes', () => {
    for (const written of ['', 'ci', 'CN=', 'CN=ci,', 'CN=ci\\', 'CN="ci"', '=ci', 'CN=ci,,O=acme']) {
      assert.equal(subjectWritten(written), null, written)
    }
  })

  it('of a certificate is found by its escaped values, whatever they are', () => {
    const value = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }).filter((text) => !text.includes('\0'))
    fc.assert(
      fc.property(value, value, (organization, common) => {
        const shown: Name = [
          ['O', organization],
          ['CN', common],
        ]
        const escaped = (text: string): string =>
          Array.from(Buffer.from(text), (byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')
        assert(isSame(`CN=${escaped(common)},O=${escaped(organization)}`, shown))
        assert(!isSame(`CN=${escaped(`${common}x`)},O=${escaped(organization)}`, shown))
      }),
      { numRuns: 50 },
    )
  })
})
