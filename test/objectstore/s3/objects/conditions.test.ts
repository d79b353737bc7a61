import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import {
  checkCopySource,
  checkRead,
  deletePrecondition,
  etagPrecondition,
  revealsStoredObject,
  writePrecondition,
} from '../../../../src/objectstore/s3/objects/conditions.ts'
import { httpDate, parseHttpDate } from '../../../../src/objectstore/s3/objects/http-date.ts'
import type { ObjectSummary } from '../../../../src/objectstore/operations.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'

const ETAG = '0123456789abcdef0123456789abcdef'
const MODIFIED_MS = Date.UTC(2026, 10, 20, 9, 30, 5, 250)
const NOW_MS = MODIFIED_MS + 3_600_000
const object: ObjectSummary = { size: 3, lastModifiedMs: MODIFIED_MS, etag: ETAG, commitSequence: 7 }

const UNCACHED = { cacheControl: null, expires: null }

const at = (seconds: number): string => httpDate(MODIFIED_MS + seconds * 1000)
const mapOf = (headers: Readonly<Record<string, string>>) => new Map(Object.entries(headers))

/**
 * The code of the refusal, with the condition that failed; 'met' without one.
 *
 * @param run throws the refusal, like a read, or returns it, like a precondition
 */
function outcome(run: () => Error | null | void): string {
  try {
    const refused = run()
    return refused instanceof Error ? named(refused) : 'met'
  } catch (error) {
    return named(error)
  }
}

function named(error: unknown): string {
  if (!(error instanceof S3Error)) throw error
  const { Condition: condition } = error.fields
  return condition === undefined ? error.code : `${error.code} ${condition}`
}

const read = (headers: Readonly<Record<string, string>>): string =>
  outcome(() => checkRead(mapOf(headers), object, UNCACHED, NOW_MS))

describe('a conditional read', () => {
  it('takes an ETag with and without quotes, in a list, and any', () => {
    for (const tags of [`"${ETAG}"`, ETAG, `"other", "${ETAG}"`, '*', ' * ']) {
      assert.equal(read({ 'if-match': tags }), 'met', tags)
      assert.equal(read({ 'if-none-match': tags }), 'NotModified', tags)
    }
    for (const tags of ['"other"', `"${ETAG}-2"`, '', '"*"']) {
      assert.equal(read({ 'if-match': tags }), 'PreconditionFailed If-Match', tags)
      assert.equal(read({ 'if-none-match': tags }), 'met', tags)
    }
  })

  it('knows an ETag that a proxy made weak only where that does no harm', () => {
    assert.equal(read({ 'if-none-match': `W/"${ETAG}"` }), 'NotModified')
    assert.equal(read({ 'if-match': `W/"${ETAG}"` }), 'PreconditionFailed If-Match')
  })

  it('compares whole seconds, as the header shows them', () => {
    assert.equal(read({ 'if-modified-since': at(0) }), 'NotModified')
    assert.equal(read({ 'if-modified-since': at(1) }), 'NotModified')
    assert.equal(read({ 'if-modified-since': at(-1) }), 'met')
    assert.equal(read({ 'if-unmodified-since': at(0) }), 'met')
    assert.equal(read({ 'if-unmodified-since': at(-1) }), 'PreconditionFailed If-Unmodified-Since')
  })

  it('ignores dates that are none, and those to come', () => {
    for (const date of ['yesterday', '', '2026', httpDate(NOW_MS + 1000)]) {
      assert.equal(read({ 'if-modified-since': date }), 'met', date)
    }
    assert.equal(read({ 'if-unmodified-since': 'yesterday' }), 'met')
  })

  it('lets the ETag decide when there is a date as well', () => {
    assert.equal(read({ 'if-match': ETAG, 'if-unmodified-since': at(-1) }), 'met')
    assert.equal(read({ 'if-match': '"no"', 'if-unmodified-since': at(0) }), 'PreconditionFailed If-Match')
    assert.equal(read({ 'if-none-match': ETAG, 'if-modified-since': at(-1) }), 'NotModified')
    assert.equal(read({ 'if-none-match': '"no"', 'if-modified-since': at(0) }), 'met')
  })

  it('fails before it is not modified', () => {
    assert.equal(read({ 'if-match': '"no"', 'if-none-match': ETAG }), 'PreconditionFailed If-Match')
    assert.equal(
      read({ 'if-unmodified-since': at(-1), 'if-modified-since': at(0) }),
      'PreconditionFailed If-Unmodified-Since',
    )
  })

  it('says what there is to ask for next time when it is not modified', () => {
    const headers = mapOf({ 'if-none-match': '*' })
    assert.throws(
      () => checkRead(headers, object, { cacheControl: 'no-cache', expires: at(60) }, NOW_MS),
      (error) => {
        assert(error instanceof S3Error)
        assert.deepEqual(Object.fromEntries(error.headers), {
          'Last-Modified': 'Fri, 20 Nov 2026 09:30:05 GMT',
          ETag: `"${ETAG}"`,
          'Cache-Control': 'no-cache',
          Expires: 'Fri, 20 Nov 2026 09:31:05 GMT',
        })
        return true
      },
    )
  })
})

describe('a condition on the source of a copy', () => {
  const copy = (headers: Readonly<Record<string, string>>): string =>
    outcome(() => checkCopySource(mapOf(headers), object, NOW_MS))

  it('fails with 412 in every case, under both names of its header', () => {
    for (const prefix of ['x-amz', 'x-obj']) {
      const failing = {
        'If-Match': '"no"',
        'If-None-Match': ETAG,
        'If-Modified-Since': at(0),
        'If-Unmodified-Since': at(-1),
      }
      for (const [name, value] of Object.entries(failing)) {
        const header = `${prefix}-copy-source-${name.toLowerCase()}`
        assert.equal(copy({ [header]: value }), `PreconditionFailed x-amz-copy-source-${name}`)
      }
    }
  })

  it('is not made by the conditions on the object that is written', () => {
    assert.equal(copy({ 'if-match': '"no"', 'if-none-match': '*' }), 'met')
  })
})

describe('a conditional write', () => {
  const write = (headers: Readonly<Record<string, string>>, current: ObjectSummary | null): string =>
    outcome(() => writePrecondition(mapOf(headers), 'k')(current))

  it('makes an object only where there is none', () => {
    assert.equal(write({ 'if-none-match': '*' }, null), 'met')
    assert.equal(write({ 'if-none-match': '*' }, object), 'PreconditionFailed If-None-Match')
    assert.equal(write({ 'if-none-match': '"other"' }, object), 'met')
    assert.equal(write({ 'if-none-match': ETAG }, object), 'PreconditionFailed If-None-Match')
  })

  it('replaces only the object that the client knows', () => {
    assert.equal(write({ 'if-match': `"${ETAG}"` }, object), 'met')
    assert.equal(write({ 'if-match': '"other"' }, object), 'PreconditionFailed If-Match')
    assert.equal(write({ 'if-match': `"${ETAG}"` }, null), 'NoSuchKey')
    assert.equal(write({ 'if-match': '*' }, object), 'met')
    assert.equal(write({ 'if-match': '*' }, null), 'NoSuchKey')
  })

  it('replaces only what is not newer than the client knows', () => {
    assert.equal(write({ 'if-unmodified-since': at(0) }, object), 'met')
    assert.equal(write({ 'if-unmodified-since': at(-1) }, object), 'PreconditionFailed If-Unmodified-Since')
    assert.equal(write({ 'if-unmodified-since': at(-1) }, null), 'met')
    assert.equal(write({ 'if-unmodified-since': at(-1), 'if-match': ETAG }, object), 'met')
  })

  it('does not have both conditions on the ETag', () => {
    assert.equal(write({ 'if-match': ETAG, 'if-none-match': '*' }, object), 'NotImplemented')
  })

  it('asks what is there, unless it is only whether there is anything', () => {
    for (const headers of [{ 'if-match': '*' }, { 'if-none-match': ETAG }, { 'if-unmodified-since': at(0) }]) {
      assert.ok(revealsStoredObject(mapOf(headers)), JSON.stringify(headers))
    }
    for (const headers of [{}, { 'if-none-match': ' * ' }, { 'if-unmodified-since': 'yesterday' }]) {
      assert.ok(!revealsStoredObject(mapOf(headers)), JSON.stringify(headers))
    }
  })

  it('is without one when it has no condition', () => {
    assert.equal(write({}, object), 'met')
    assert.equal(write({}, null), 'met')
  })
})

describe('a conditional delete', () => {
  const remove = (headers: Readonly<Record<string, string>>, current: ObjectSummary | null): string =>
    outcome(() => deletePrecondition(mapOf(headers), 'key')(current))

  it('is about the ETag of an object that is there', () => {
    assert.equal(remove({ 'if-match': ETAG }, object), 'met')
    assert.equal(remove({ 'if-match': '*' }, object), 'met')
    assert.equal(remove({ 'if-match': '"no"' }, object), 'PreconditionFailed If-Match')
    assert.equal(remove({ 'if-match': '"no"' }, null), 'NoSuchKey')
    assert.equal(remove({ 'if-match': '*' }, null), 'NoSuchKey')
    assert.equal(remove({}, null), 'met')
    assert.equal(remove({}, object), 'met')
  })

  it('is of one key of many as well', () => {
    assert.equal(
      outcome(() => etagPrecondition('"no"', 'key')(object)),
      'PreconditionFailed If-Match',
    )
    assert.equal(
      outcome(() => etagPrecondition(null, 'key')(object)),
      'met',
    )
  })

  it('has no conditions on size and time', () => {
    for (const name of ['x-amz-if-match-size', 'x-obj-if-match-last-modified-time']) {
      assert.equal(remove({ [name]: '1' }, object), 'NotImplemented')
    }
  })
})

test('dates are read in every form that HTTP has had, and in that of XML', () => {
  const secondMs = MODIFIED_MS - 250
  for (const text of [
    'Fri, 20 Nov 2026 09:30:05 GMT',
    'Friday, 20-Nov-26 09:30:05 GMT',
    'Fri Nov 20 09:30:05 2026',
    'Fri, 20 Nov 2026 09:30:05 +0000',
    '2026-11-20T09:30:05Z',
    '2026-11-20T09:30:05.000Z',
  ]) {
    assert.equal(parseHttpDate(text), secondMs, text)
  }
  for (const text of ['', 'now', '1763631005', '2026-11-20', 'Fri, 32 Nov 2026 09:30:05 GMT']) {
    assert.equal(parseHttpDate(text), null, text)
  }
})
