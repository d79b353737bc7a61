/**
 * The member names of OTLP JSON, recognised in place: a perfect hash over length, first and last byte, then one comparison.
 * A key is the number of its name in KEYS. Before that the likeliest key is tried, by comparing with its usual spelling.
 */
import assert from 'node:assert/strict'
import { decodeString, escaped, malformed, skipSpace, skipString, text, view } from './json-text.ts'

const KEYS = [
  'resourceLogs',
  'resourceSpans',
  'resource',
  'scopeLogs',
  'scopeSpans',
  'scope',
  'logRecords',
  'spans',
  'schemaUrl',
  'attributes',
  'droppedAttributesCount',
  'key',
  'value',
  'values',
  'stringValue',
  'boolValue',
  'intValue',
  'doubleValue',
  'arrayValue',
  'kvlistValue',
  'bytesValue',
  'name',
  'version',
  'timeUnixNano',
  'observedTimeUnixNano',
  'severityNumber',
  'severityText',
  'body',
  'flags',
  'traceId',
  'spanId',
  'eventName',
  'traceState',
  'parentSpanId',
  'kind',
  'startTimeUnixNano',
  'endTimeUnixNano',
  'events',
  'droppedEventsCount',
  'links',
  'droppedLinksCount',
  'status',
  'message',
  'code',
] as const

type KeyName = (typeof KEYS)[number]

/** The number of a name, for the constants that a scanner switches on. */
export const keyNumber = (name: KeyName): number => KEYS.indexOf(name)

const KEY_UNKNOWN = -1
/** The object is over; cursor is after its closing brace. */
export const KEY_NONE = -2

const SLOTS = 128
const slotOf = (length: number, first: number, last: number): number => (length + 34 * first + 47 * last) & (SLOTS - 1)

const slots = new Int8Array(SLOTS).fill(KEY_UNKNOWN)
const names: readonly Uint8Array[] = KEYS.map((name) => Buffer.from(name))
const numbers = new Map<string, number>(KEYS.map((name, number) => [name, number]))
for (const [number, name] of names.entries()) {
  const slot = slotOf(name.length, name[0]!, name.at(-1)!)
  assert.equal(slots[slot], KEY_UNKNOWN) // perfect: change the factors in slotOf when a new name collides
  slots[slot] = number
}

/**
 * Each name as it is written most often, `"name":`, as words of four bytes; the last word overlaps the one before so that it
 * ends with the colon. All words of all names stand in one array, with the offset of each in its name.
 */
const spellings: number[] = []
const offsets: number[] = []
const spellingStart: number[] = []
for (const name of KEYS) {
  const spelling = Buffer.from(`"${name}":`)
  spellingStart.push(spellings.length)
  for (let at = 0; at < spelling.length; at += 4) {
    const offset = Math.min(at, spelling.length - 4)
    offsets.push(offset)
    spellings.push(spelling.readInt32LE(offset))
  }
}
spellingStart.push(spellings.length)
const spellingWords = Int32Array.from(spellings)
const wordOffsets = Uint8Array.from(offsets)
const wordsStart = Uint16Array.from(spellingStart)

/** Which key came after each key the last time: senders write the members of a kind of object in one order. */
const successor = new Int8Array(KEYS.length).fill(0)

/** Where the value begins after firstKey and nextKey, or, after KEY_NONE, what follows the object. */
export let cursor = 0

/** The first key of the object whose opening brace is at `at`; `likely` is tried first. Sets cursor. */
export function firstKey(at: number, likely: number): number {
  at++
  if (isSpelledAt(at, likely)) return likely
  at = skipSpace(at)
  if (text[at] === 0x7d) {
    cursor = at + 1
    return KEY_NONE
  }
  return readKey(at)
}

/** The key of the next member, `at` being the position after the value of the one before. Sets cursor. */
export function nextKey(at: number, before: number): number {
  let byte = text[at]!
  if (byte === 0x2c && before >= 0) {
    const likely = successor[before]!
    if (isSpelledAt(at + 1, likely)) return likely
  }
  if (byte <= 0x20) {
    at = skipSpace(at)
    byte = text[at]!
  }
  if (byte === 0x7d) {
    cursor = at + 1
    return KEY_NONE
  }
  if (byte !== 0x2c) malformed('a comma or closing brace expected in JSON', at)
  const key = readKey(skipSpace(at + 1))
  if (before >= 0 && key >= 0) successor[before] = key
  return key
}

/** Whether `"name":` and then the value begin at `at`, without whitespace. Sets cursor if so. */
function isSpelledAt(at: number, key: number): boolean {
  const last = wordsStart[key + 1]! - 1
  for (let i = wordsStart[key]!; i <= last; i++) {
    if (view.getInt32(at + wordOffsets[i]!, true) !== spellingWords[i]!) return false
  }
  at += wordOffsets[last]! + 4
  cursor = text[at]! > 0x20 ? at : skipSpace(at)
  return true
}

function readKey(at: number): number {
  if (text[at] !== 0x22) malformed('a JSON key expected', at)
  const start = at + 1
  const keyEnd = skipString(start)
  const key = escaped ? findEscaped(start, keyEnd - 1) : find(start, keyEnd - 1)
  at = skipSpace(keyEnd)
  if (text[at] !== 0x3a) malformed('a colon expected in JSON', at)
  cursor = skipSpace(at + 1)
  return key
}

function find(start: number, end: number): number {
  if (start === end) return KEY_UNKNOWN
  const key = slots[slotOf(end - start, text[start]!, text[end - 1]!)]!
  if (key < 0) return KEY_UNKNOWN
  const name = names[key]!
  if (name.length !== end - start) return KEY_UNKNOWN
  for (let i = 0; i < name.length; i++) if (name[i] !== text[start + i]) return KEY_UNKNOWN
  return key
}

function findEscaped(start: number, end: number): number {
  return numbers.get(decodeString(start, end, true)) ?? KEY_UNKNOWN
}
