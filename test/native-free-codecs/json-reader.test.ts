import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import {
  JsonBoundError,
  JsonReader,
  LONG_STRING_BYTES,
  LongString,
  checkParsed,
} from '../../native-free-codecs/json-reader.ts'
import type { LongStringOf } from '../../native-free-codecs/json-reader.ts'

const BOUNDS = { depth: 64, members: 1024, values: 200_000, stringBytes: 128 << 10 }
const never: LongStringOf = () => null

interface Reading {
  readonly value: unknown
  readonly steps: number
}

function readIn(bytes: Buffer, budget: number, longStringOf = never, bounds = BOUNDS): Reading {
  const reader = new JsonReader(bytes, bounds, longStringOf)
  let steps = 1
  for (let at = -1; !reader.step(budget); steps++) {
    assert.ok(steps < 1e6, `no end in sight behind ${at}`)
    at = reader.at
  }
  return { value: reader.value, steps }
}

const read = (text: string, budget = 1 << 20): unknown => readIn(Buffer.from(text), budget).value

/** The value of JSON.parse, with '\ud800' for each string that has a lone surrogate. */
const parsed = (text: string): unknown =>
  JSON.parse(text, (_, value: unknown) => (typeof value === 'string' && !value.isWellFormed() ? '\ud800' : value))

/** JSON with white space and escapes in any place that allows them. */
function written(value: unknown, choices: number[]): string {
  const space = (): string => ['', '', '', ' ', '\n\t', '\r'][(choices.push(choices.shift()! + 1), choices[0]! % 6)]!
  const text = (string: string): string =>
    `"${Array.from({ length: string.length }, (_, i) => {
      const unit = string.charCodeAt(i)
      choices.push(choices.shift()! + 1)
      const isSurrogate = unit >= 0xd800 && unit < 0xe000
      const hex = unit.toString(16).padStart(4, '0')
      if (choices[0]! % 3 === 0 || isSurrogate) return `\\u${choices[0]! % 2 ? hex : hex.toUpperCase()}`
      return JSON.stringify(string[i]).slice(1, -1)
    }).join('')}"`
  const one = (value: unknown): string => {
    if (typeof value === 'string') return text(value)
    if (Array.isArray(value)) return `[${space()}${value.map((item) => one(item) + space()).join(`,${space()}`)}]`
    if (typeof value !== 'object' || value === null) return JSON.stringify(value)
    const members = Object.entries(value).map(([name, member]) => `${text(name)}${space()}:${space()}${one(member)}`)
    return `{${space()}${members.join(`${space()},${space()}`)}${space()}}`
  }
  return space() + one(value) + space()
}

const broken = (text: string, at: number, by: string): string => {
  const i = Math.floor(at * (text.length + 1))
  return text.slice(0, i) + by + text.slice(i + by.length)
}

describe('the reader of long JSON', () => {
  it('reads what JSON.parse reads, whatever the slices', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 4, stringUnit: 'binary' }),
        fc.array(fc.nat(1000), { minLength: 7, maxLength: 7 }),
        fc.integer({ min: 1, max: 200 }),
        (value, choices, budget) => {
          const text = written(value, choices)
          assert.deepEqual(read(text, budget), parsed(text), text)
        },
      ),
      { endOnFailure: true },
    )
  })

  it('refuses what JSON.parse refuses, wherever a text is broken', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 3 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.constantFrom(...Array.from('",:[]{}\\0-+.eE1tfnu \u0000\u001f'), '""', '\\u', '00', 'é', '\\ud83d'),
        fc.integer({ min: 1, max: 50 }),
        (value, at, by, budget) => {
          const text = broken(JSON.stringify(value), at, by)
          const of = (parse: () => unknown): unknown => {
            try {
              return [parse()]
            } catch (error) {
              if (error instanceof JsonBoundError) return [parsed(text)] // the change has made a name come twice
              assert.ok(error instanceof SyntaxError, String(error))
              return 'none'
            }
          }
          assert.deepEqual(
            of(() => read(text, budget)),
            of(() => parsed(text)),
            JSON.stringify(text),
          )
        },
      ),
      { numRuns: 1000 },
    )
  })

  it('refuses bytes that are not UTF-8, wherever a slice ends', () => {
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80]]) {
      const body = Buffer.concat([Buffer.from('"é€😀'), Buffer.from(bytes), Buffer.from('"')])
      for (let budget = 1; budget < 12; budget++) {
        assert.throws(() => readIn(Buffer.from(body), budget), SyntaxError)
      }
    }
    for (let budget = 1; budget < 12; budget++) assert.equal(read('"é€😀"', budget), 'é€😀')
  })

  it('refuses a name that an object has twice, however it is written', () => {
    for (const text of ['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '[{"b":{"__proto__":1,"__proto__":2}}]']) {
      assert.throws(() => read(text), JsonBoundError, text)
      assert.throws(() => checkParsed(text, JSON.parse(text), 64), JsonBoundError, text)
    }
    for (const text of ['{"a":{"a":1},"b":[{"a":1}]}', '{"a":"\\"a\\":1","b":": :"}', '{"__proto__":{"x":1}}']) {
      assert.deepEqual(read(text), JSON.parse(text))
      checkParsed(text, JSON.parse(text), 64)
    }
  })

  it('refuses nesting over the bound in both readers', () => {
    for (const [depth, isRead] of [
      [64, true],
      [65, false],
    ] as const) {
      for (const text of ['['.repeat(depth) + ']'.repeat(depth), '{"a":'.repeat(depth) + '1' + '}'.repeat(depth)]) {
        const readers = [() => read(text), () => checkParsed(text, JSON.parse(text), 64)]
        for (const reader of readers) {
          if (isRead) reader()
          else assert.throws(reader, JsonBoundError)
        }
      }
    }
  })

  it('stops where a bound is exceeded, long before the end of the text', () => {
    const members = Array.from({ length: 800_000 }, (_, i) => `"h${i}":"v"`).join(',')
    for (const text of [
      `{"headers":{${members}}}`,
      `[${'0,'.repeat(4 << 20)}0]`,
      `{"m":"${'x'.repeat(8 << 20)}"}`,
      '['.repeat(8 << 20),
      '1'.repeat(8 << 20),
    ]) {
      const reader = new JsonReader(Buffer.from(text), BOUNDS, never)
      assert.throws(() => {
        while (!reader.step(64 << 10));
      }, JsonBoundError)
      assert.ok(reader.at < 1 << 20, `${reader.at} bytes were read`)
    }
  })

  it('reads a large text in many small steps', () => {
    const payload = 'x'.repeat(16 << 20)
    const { value, steps } = readIn(Buffer.from(`{"p":"${payload}"}`), 1 << 20, () => 'utf8')
    assert.ok(steps >= 16, `${steps} steps`)
    assert.equal((value as { p: LongString }).p.bytes.byteLength, payload.length)
    const many = readIn(Buffer.from(`[${'0,'.repeat(100_000)}0]`), 1 << 20)
    assert.ok(many.steps >= 6, `${many.steps} steps`) // values cost more steps than their bytes
  })

  it('gives long strings as bytes, where it is told', () => {
    const longStringOf: LongStringOf = (name, owner) =>
      owner === 'headers' ? null : name === 'p' ? 'utf8' : name === 'h' ? 'hex' : null
    const long = '😀é"\\'.repeat(LONG_STRING_BYTES)
    const hex = Buffer.alloc(LONG_STRING_BYTES, 'aé').toString('hex')
    const of = (value: unknown, budget: number): Record<string, unknown> =>
      readIn(Buffer.from(JSON.stringify(value)), budget, longStringOf).value as Record<string, unknown>
    for (const budget of [1, 7, 1000, 1 << 20]) {
      const { p, h, other, headers, records } = of(
        { p: long, h: hex, other: long, headers: { p: long }, records: [{ h: `${hex}Ff`, p: 'short' }] },
        budget,
      )
      assert.deepEqual(p, new LongString(Buffer.from(long), 'utf8', true))
      assert.deepEqual(h, new LongString(Buffer.from(hex, 'hex'), 'hex', true))
      assert.equal(other, long)
      assert.deepEqual(headers, { p: long })
      assert.deepEqual(records, [{ h: new LongString(Buffer.from(`${hex}ff`, 'hex'), 'hex', true), p: 'short' }])
      for (const bad of [`${hex}0`, `${hex}zz`, `zz${hex}`])
        assert.equal((of({ h: bad }, budget)['h'] as LongString).isValid, false)
      assert.equal((of({ p: `${long}\ud800` }, budget)['p'] as LongString).isValid, false)
    }
  })
})
