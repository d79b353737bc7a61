import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { longStringEncodingOf, parsePublish } from '../../../src/broker/publish-input.ts'
import type { PublishInput } from '../../../src/broker/publish-input.ts'
import { scanPublish } from '../../../src/broker/api/publish-scan.ts'
import { readJsonBody } from '../../../src/http/json-body.ts'

/** What the JSON reader and `parsePublish` make of a body; null when they refuse it. */
function parsed(body: Buffer): PublishInput | null {
  try {
    const { value } = readJsonBody(Buffer.from(body), true, longStringEncodingOf, () => false) as { value: unknown } // short bodies are read in one slice
    return parsePublish(value)
  } catch {
    return null
  }
}

const bytesOf = (content: PublishInput['payload']): Buffer =>
  content instanceof Uint8Array ? Buffer.from(content) : Buffer.from(content.text, content.encoding)
const shown = (input: PublishInput | null) =>
  input && { ...input, payload: bytesOf(input.payload), key: input.key && bytesOf(input.key) }

const plain = fc.stringMatching(/^[ -!#-[\]-~é€😀]{1,12}$/u)
const quoted = plain.map((text) => `"${text}"`)
const unusual = fc.constantFrom(
  '""',
  '" "',
  '"a\\n"',
  '"\\ud800"',
  '"\\u0041"',
  '"tab\t"',
  '"open',
  'null',
  'true',
  '{}',
  '[1]',
  '"00"',
  '"a"b',
  '0',
  '01',
  '-0',
  '-1',
  '1.0',
  '1e3',
  '999999999999999',
  '9007199254740993',
  '"local-sync"',
  '"volatile"',
  '"x"',
)
const name = fc.constantFrom(
  'message_id',
  'payload',
  'key',
  'event_time_ms',
  'durability_mode',
  'headers',
  'payload_hex',
  'key_hex',
  'other',
  'pay\\u006coad',
  'message_i',
  '__proto__',
  '',
)
const space = fc.constantFrom('', '', '', ' ', '\n', '\r\t', '\u00a0')
const member = fc.tuple(space, name, space, fc.oneof(quoted, unusual), space).map(([a, n, b, value, c]) => {
  return `${a}"${n}"${b}:${value}${c}`
})
/** Bodies like most of them, sometimes with members of any kind. */
const usual = fc
  .tuple(
    fc.tuple(quoted, quoted).map(([id, payload]) => [`"message_id":${id}`, ` "payload" : ${payload}`]),
    fc.array(member, { maxLength: 3 }),
    fc.option(fc.nat().map((time) => `"event_time_ms":${time}`)),
    fc.option(fc.constantFrom('volatile', 'local-append', 'local-sync').map((mode) => `"durability_mode":"${mode}"`)),
  )
  .chain(([needed, more, ...others]) =>
    fc.shuffledSubarray([...needed, ...more, ...others.filter((each) => each !== null)]),
  )
const text = fc
  .tuple(usual, fc.constantFrom(',', ',', ',', ',', ', ', ',,', ''), fc.constantFrom('', '', '', ' ', 'x', '}', ','))
  .map(([members, comma, behind]) => `{${members.join(comma)}}${behind}`)
const body = fc.oneof(
  { weight: 4, arbitrary: text.map((text) => Buffer.from(text)) },
  fc.tuple(text, fc.nat(), fc.integer({ min: 0, max: 255 })).map(([text, at, byte]) => {
    const damaged = Buffer.from(`${text} `)
    damaged[at % damaged.byteLength] = byte
    return damaged
  }),
  fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
)

describe('the body of a publish, read as bytes,', () => {
  it('says what JSON and its rules say of it, or leaves it to them', () => {
    fc.assert(
      fc.property(body, (body) => {
        const scanned = scanPublish(body)
        if (scanned !== null) assert.deepEqual(shown(scanned), shown(parsed(body)))
      }),
      { numRuns: 5000 },
    )
  })

  it('is not left to them when it is of the usual form', () => {
    const fields = {
      message_id: plain.filter((text) => text.trim() !== ''),
      payload: fc.oneof(plain, fc.constant('')),
      key: plain,
      event_time_ms: fc.nat(),
      durability_mode: fc.constantFrom('volatile', 'local-append', 'local-sync'),
    }
    fc.assert(
      fc.property(
        fc.record(fields, { requiredKeys: ['message_id', 'payload'] }),
        fc.constantFrom(0, 2),
        (record, indent) => {
          const body = Buffer.from(JSON.stringify(record, null, indent))
          assert.notEqual(scanPublish(body), null)
          assert.deepEqual(shown(scanPublish(body)), shown(parsed(body)))
        },
      ),
    )
  })
})
