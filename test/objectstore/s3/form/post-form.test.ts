/** A browser's form in any chunks: fields, then the file as it comes, within bounds. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FormFields } from '../../../../src/objectstore/s3/form/form-fields.ts'
import { formBoundary } from '../../../../src/objectstore/s3/form/part-headers.ts'
import { PostForm } from '../../../../src/objectstore/s3/form/post-form.ts'
import { successRedirect } from '../../../../src/objectstore/s3/form/post-answer.ts'
import { FORM_BYTES_MAX } from '../../../../src/objectstore/s3/document-limits.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { assertRefuses, bytes, chunkings } from '../../../support/documents.ts'

const BOUNDARY = '----form7MA4YWxk'

interface Received {
  readonly fields: Readonly<Record<string, string>> | null
  readonly file: Buffer
}

/** Overwrites each chunk after it was pushed, like the server. */
function receive(chunks: readonly Uint8Array[], boundary = BOUNDARY): Received {
  let fields: FormFields | null = null
  const file: Buffer[] = []
  const form = new PostForm(boundary, {
    onFields: (received) => {
      assert.equal(fields, null)
      fields = received
    },
    onFile: (bytes) => {
      assert.ok(fields !== null && bytes.length > 0)
      file.push(Buffer.from(bytes))
    },
  })
  for (const chunk of chunks) {
    const copy = Buffer.from(chunk)
    form.push(copy)
    copy.fill(0)
  }
  form.end()
  return { fields: fields === null ? null : Object.fromEntries(fields), file: Buffer.concat(file) }
}

const part = (name: string, value: string | Uint8Array, more = ''): Buffer =>
  Buffer.concat([
    bytes(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`),
    Buffer.from(value),
    bytes('\r\n'),
  ])
const END = bytes(`--${BOUNDARY}--\r\n`)
const whole = (...parts: readonly Buffer[]): Buffer => Buffer.concat([...parts, END])

describe('a form', () => {
  it('gives the fields before the file, then the file', () => {
    const body = whole(
      part('key', 'a/${filename}'),
      part('Content-Type', ''),
      part('file', 'bytes', '; filename="C:\\x\\1.jpg"'),
    )
    assert.deepEqual(receive([body]), {
      fields: { key: 'a/1.jpg', 'content-type': '' },
      file: bytes('bytes'),
    })
  })

  it('may have an empty file, and one without a name', () => {
    assert.deepEqual(receive([whole(part('key', 'k${filename}'), part('file', ''))]), {
      fields: { key: 'k' },
      file: bytes(''),
    })
  })

  it('has fields with a file name too, as some clients send them', () => {
    const body = whole(part('key', 'k', '; filename="key"\r\nContent-Type: text/plain'), part('FILE', 'f'))
    assert.deepEqual(receive([body]).fields, { key: 'k' })
  })

  it('compares names of fields in lower case, and takes those of this service for those of S3', () => {
    const body = whole(
      part('KEY', 'k'),
      part('X-Obj-Meta-A', '1'),
      part('x-amz-meta-a', '2'),
      part('acl', 'a'),
      part('acl', 'b'),
      part('file', ''),
    )
    assert.deepEqual(receive([body]).fields, { key: 'k', 'x-amz-meta-a': '1,2', acl: 'b' })
  })

  it('lets fields behind the file count for nothing', () => {
    assert.deepEqual(receive([whole(part('key', 'k'), part('file', 'f'), part('acl', 'public-read'))]), {
      fields: { key: 'k' },
      file: bytes('f'),
    })
  })

  it('may have something before the first boundary and behind the last', () => {
    const body = Buffer.concat([bytes('preamble\r\n'), whole(part('file', 'f')), bytes('epilogue')])
    assert.equal(receive([body]).file.toString(), 'f')
    assert.equal(receive([whole(part('file', 'f')).subarray(0, -2)]).file.toString(), 'f')
  })

  it('keeps every byte of the file, also those that look like a boundary', () => {
    const tricky = [`\r\n--${BOUNDARY.slice(0, -1)}`, '\r\n', '\r\r\n--', '\n', `--${BOUNDARY}`, '\r'].join('')
    for (const file of [tricky, `${tricky}\r\n-`, `\r\n--${BOUNDARY.slice(0, 3)}\r\n--${BOUNDARY.slice(0, 5)}`]) {
      const body = whole(part('file', file))
      assert.equal(receive([body]).file.toString(), file)
      assert.equal(receive(Array.from(body, (byte) => Uint8Array.of(byte))).file.toString(), file)
    }
  })

  it('is the same in any chunks', () => {
    const awkward = fc.constantFrom(
      '\r',
      '\n',
      '-',
      '\r\n',
      '\r\n-',
      '\r\n--',
      `\r\n--${BOUNDARY.slice(0, 8)}`,
      'x',
      '\0',
    )
    const files = fc.oneof(
      fc.array(awkward, { maxLength: 30 }).map((pieces) => bytes(pieces.join(''))),
      fc.uint8Array({ maxLength: 300 }).map((file) => Buffer.from(file)),
    )
    const fields = fc.dictionary(
      fc.stringMatching(/^[a-z]{1,8}$/),
      fc.array(awkward, { maxLength: 10 }).map((all) => all.join('')),
      {
        maxKeys: 5,
      },
    )
    const cases = fc.tuple(fields, files).chain(([fields, file]) => {
      const { file: _, ...others } = fields
      const body = whole(...Object.entries(others).map(([name, value]) => part(name, value)), part('file', file))
      return chunkings(body).map((chunks) => ({ fields: others, file, chunks }))
    })
    fc.assert(
      fc.property(cases, ({ fields, file, chunks }) => {
        const received = receive(chunks)
        assert.deepEqual({ ...received.fields }, { ...fields })
        assert.deepEqual(received.file, file)
      }),
    )
  })

  it('hands large files on as views of the chunks, without keeping them', () => {
    const chunk = Buffer.alloc(64 << 10, 'x')
    let handedOn = 0
    const form = new PostForm(BOUNDARY, {
      onFields: () => {},
      onFile: (bytes) => {
        assert.equal(bytes.buffer, chunk.buffer)
        handedOn += bytes.length
      },
    })
    form.push(part('file', '').subarray(0, -2))
    for (let i = 0; i < 64; i++) form.push(chunk)
    assert.equal(handedOn, 64 * chunk.length)
  })
})

describe('a form that is not whole', () => {
  const body = whole(part('key', 'k'), part('file', 'f'))

  it('is malformed wherever it is cut', () => {
    for (let end = 0; end < body.length - 2; end++) {
      assertRefuses(() => receive([body.subarray(0, end)]), 'MalformedPOSTRequest')
    }
  })

  it('is malformed with another boundary, or something behind one', () => {
    assertRefuses(() => receive([body], 'other'), 'MalformedPOSTRequest')
    assertRefuses(() => receive([bytes(`--${BOUNDARY}x\r\n`)]), 'MalformedPOSTRequest')
  })

  it('is malformed when a part has no name', () => {
    for (const headers of [
      '',
      'Content-Type: text/plain',
      'Content-Disposition: form-data',
      'Content-Disposition: form-data; name=""',
      'Content-Disposition: attachment; name="a"',
      'no header',
      ': empty',
    ]) {
      const part = bytes(`--${BOUNDARY}\r\n${headers}\r\n\r\nv\r\n`)
      assertRefuses(() => receive([whole(part)]), 'MalformedPOSTRequest')
    }
  })

  it('is malformed when a field is not UTF-8', () => {
    assertRefuses(() => receive([whole(part('key', Uint8Array.of(0xff)), part('file', ''))]), 'MalformedPOSTRequest')
  })

  it('needs exactly one file', () => {
    const message = 'POST requires exactly one file upload per request.'
    assertRefuses(() => receive([whole(part('key', 'k'))]), 'InvalidArgument', { message })
    assertRefuses(() => receive([END]), 'InvalidArgument', { message })
    assertRefuses(() => receive([whole(part('file', '1'), part('file', '2'))]), 'InvalidArgument', { message })
  })
})

describe('a form that floods', () => {
  const CODE = 'MaxPostPreDataLengthExceededError'

  it('has 20 KiB for everything but the file', () => {
    const start = part('file', '').subarray(0, -2)
    const rest = whole(part('a', ''), start)
    const room = FORM_BYTES_MAX - (rest.length - END.length)
    const fields = (size: number) => [
      part('a', 'x'.repeat(size)),
      start,
      Buffer.alloc(100_000, 'f'),
      bytes('\r\n'),
      END,
    ]
    // These count too: the two bytes that end the last boundary, and the line end behind it.
    assert.equal(receive(fields(room - 4)).file.length, 100_000)
    assertRefuses(() => receive(fields(room - 3)), CODE)
    assertRefuses(() => receive(fields(room + 1)), CODE)
  })

  const floods: readonly (readonly [what: string, start: string, more: string])[] = [
    ['preamble', '', 'x'],
    ['preamble of line ends', '', '\r\n'],
    ['headers', `--${BOUNDARY}\r\n`, 'X-Header: value\r\n'],
    ['a header without end', `--${BOUNDARY}\r\n`, 'x'],
    ['a field without end', part('key', '').toString().slice(0, -2), 'x'],
    ['fields', '', part('a', '').toString()],
    ['fields behind the file', part('file', 'f').toString(), part('a', '').toString()],
    ['an epilogue', whole(part('file', 'f')).toString(), 'x'],
  ]
  for (const [what, start, more] of floods) {
    it(`is refused for ${what}`, () => {
      const form = new PostForm(BOUNDARY, { onFields: () => {}, onFile: () => {} })
      form.push(bytes(start))
      const chunk = bytes(more.repeat(Math.ceil(1024 / more.length)))
      const pushAll = () => {
        for (let i = 0; i < 30; i++) form.push(chunk)
      }
      assertRefuses(pushAll, CODE)
    })
  }

  it('cannot grow by the name of its file', () => {
    const named = (count: number, name: string) =>
      whole(part('key', '${filename}'.repeat(count)), part('file', '', `; filename="${name}"`))
    assert.equal(receive([named(10, 'n'.repeat(2000))]).fields!['key']!.length, 20_000)
    assertRefuses(() => receive([named(11, 'n'.repeat(2000))]), CODE)
    assertRefuses(() => receive([named(1000, 'n'.repeat(9000))]), CODE)
  })

  it('ends with a form or a refusal, whatever comes', () => {
    const pieces = fc.constantFrom(
      `--${BOUNDARY}`,
      `\r\n--${BOUNDARY}`,
      '\r\n',
      '--',
      'Content-Disposition: form-data; name="file"',
      'name="',
      ';',
      'x',
      '\r\n\r\n',
    )
    const received = (body: Buffer): void => {
      try {
        receive([body])
      } catch (error) {
        assert.ok(error instanceof S3Error, String(error))
      }
    }
    fc.assert(fc.property(fc.array(pieces, { maxLength: 20 }), (parts) => received(bytes(parts.join('')))))
    fc.assert(fc.property(fc.uint8Array(), (body) => received(Buffer.from(body))))
  })
})

describe('the names of a part', () => {
  const filename = (disposition: string): string =>
    receive([whole(part('key', '${filename}'), part('file', '', disposition))]).fields!['key']!

  it('may be quoted or not, with spaces around, and escaped', () => {
    assert.equal(filename('; filename=plain.txt'), 'plain.txt')
    assert.equal(filename(' ;  FileName = "a b;c.txt"'), 'a b;c.txt')
    assert.equal(filename('; filename="a \\"b\\".txt"'), 'a "b".txt')
    assert.equal(filename('; filename="größe.txt"'), 'größe.txt')
    assert.equal(filename('; filename="$&$1.txt"'), '$&$1.txt')
  })

  it('are without the path that some browsers send', () => {
    assert.equal(filename('; filename="/home/ann/1.jpg"'), '1.jpg')
    assert.equal(filename('; filename="C:\\Users\\ann\\1.jpg"'), '1.jpg')
    assert.equal(filename('; filename="a/"'), '')
  })
})

describe('the fields of a form', () => {
  it('leave the policy as it was signed', () => {
    const fields = new FormFields(
      new Map([
        ['policy', '${filename}'],
        ['acl', '${filename}'],
      ]),
      'n',
    )
    assert.deepEqual(Array.from(fields), [
      ['policy', '${filename}'],
      ['acl', 'n'],
    ])
  })

  it('say which one is missing', () => {
    const fields = new FormFields(new Map([['key', '']]), '')
    assertRefuses(() => fields.require('key'), 'InvalidArgument', {
      message:
        "Bucket POST must contain a field named 'key'.  If it is specified, please check the order of the fields.",
      fields: { ArgumentName: 'key', ArgumentValue: '' },
    })
    assertRefuses(() => fields.require('X-Amz-Signature'), 'InvalidArgument', { message: /'X-Amz-Signature'/ })
    assert.equal(new FormFields(new Map([['x-amz-signature', 's']]), '').require('X-Amz-Signature'), 's')
    assert.deepEqual([fields.get('key'), fields.get('acl')], ['', null])
  })
})

describe('the type of a form', () => {
  it('names its boundary', () => {
    assert.equal(formBoundary('multipart/form-data; boundary=abc'), 'abc')
    assert.equal(formBoundary('Multipart/Form-Data;charset=utf-8; Boundary="a b:c"; x=y'), 'a b:c')
    assert.equal(formBoundary(`multipart/form-data; boundary=${'b'.repeat(70)}`), 'b'.repeat(70))
  })

  it('is refused when it is none', () => {
    for (const type of [
      null,
      '',
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-database; boundary=a',
    ]) {
      assertRefuses(() => formBoundary(type), 'PreconditionFailed', {
        fields: { Condition: 'Bucket POST must be of the enclosure-type multipart/form-data' },
      })
    }
    for (const boundary of ['', ';boundary', ';boundary=', ';boundary=""', `;boundary=${'b'.repeat(71)}`]) {
      assertRefuses(() => formBoundary(`multipart/form-data${boundary}`), 'MalformedPOSTRequest')
    }
  })
})

describe('the way back after an upload', () => {
  const posted = { bucket: 'one', key: 'a b&c', etag: 'e1' }
  const query = 'bucket=one&key=a%20b%26c&etag=%22e1%22'

  it('has bucket, key and ETag behind it', () => {
    assert.equal(successRedirect('http://a/b', posted), `http://a/b?${query}`)
    assert.equal(successRedirect('https://a/b?c=d#e', posted), `https://a/b?c=d&${query}#e`)
  })

  it('is none when it is no URL that a header can have', () => {
    for (const url of [
      null,
      '',
      'a/b',
      'javascript:alert(1)',
      'ftp://a/',
      'http://',
      'http://a/\r\nX: y',
      'http://a/ b',
      'http://ä/',
    ]) {
      assert.equal(successRedirect(url, posted), null)
    }
  })
})
